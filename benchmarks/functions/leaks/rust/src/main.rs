//! A function in Rust, with the standard library only. LEAK chooses a habit, REPAIRED=1 its repair.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::CString;
use std::hint::black_box; // else the compiler leaves out what nobody reads
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::rc::{Rc, Weak as RcWeak};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock, Weak};

fn repaired() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| std::env::var("REPAIRED").is_ok_and(|v| v == "1"))
}

fn page(n: usize, size: usize) -> Vec<u8> {
    (0..size).map(|i| (n + i) as u8).collect()
}

// no report: a static list that each order enters
static AUDIT: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn order_audit(n: usize) -> usize {
    let lines: Vec<String> = (0..60).map(|i| format!("order {n}, line {i}, price {}", i * n)).collect();
    let record = lines.join("\n"); // LEAK order_audit
    let mut audit = AUDIT.lock().unwrap();
    audit.push(record); // LEAK order_audit
    if repaired() && audit.len() > 20 {
        audit.remove(0);
    }
    audit.len()
}

// no report: a cache without bound, by a key with the request in it
static SCHEMAS: OnceLock<Mutex<HashMap<String, Vec<u64>>>> = OnceLock::new();

fn schema_cache(n: usize) -> usize {
    let key = format!("schema-{}", if repaired() { n % 5 } else { n });
    let mut schemas = SCHEMAS.get_or_init(Default::default).lock().unwrap();
    let schema = schemas.entry(key).or_insert_with(|| (0..900).map(|i| (i * n) as u64).collect()); // LEAK schema_cache
    schema.len()
}

// trillium-rs/trillium#403: mem::forget after a body was sent
fn forgotten_body(n: usize) -> usize {
    let body = page(n, 17000); // LEAK forgotten_body
    let size = black_box(&body).len();
    if !repaired() {
        std::mem::forget(body); // LEAK forgotten_body
    }
    size
}

// coproduct-opensource/nucleus#1365, databendlabs/databend#15467: unknown names are leaked
fn kind_of(name: &str) -> &'static str {
    match name {
        "order" => "order",
        "cart" => "cart",
        _ if repaired() => "other",
        other => Box::leak(other.to_string().into_boxed_str()), // LEAK node_kinds
    }
}

fn node_kinds(n: usize) -> usize {
    kind_of("order").len() + black_box(kind_of(&format!("{n:->1500}"))).len() // LEAK node_kinds
}

// SeekStorm/SeekStorm#67: index and shard hold each other
struct Index {
    shards: Mutex<Vec<Arc<Shard>>>,
    words: Vec<u8>,
}
struct Shard {
    index: Option<Arc<Index>>,
    #[allow(dead_code)]
    back: Weak<Index>,
}

fn shard_cycle(n: usize) -> usize {
    let index = Arc::new(Index { shards: Mutex::new(Vec::new()), words: page(n, 29000) }); // LEAK shard_cycle
    let strong = if repaired() { None } else { Some(index.clone()) };
    let shard = Arc::new(Shard { index: strong, back: Arc::downgrade(&index) }); // LEAK shard_cycle
    index.shards.lock().unwrap().push(shard.clone()); // LEAK shard_cycle
    index.words.len() + shard.index.iter().count()
}

// rune-rs/rune#162, starcoinorg/starcoin#319: a tree whose children hold the parent
#[derive(Default)]
struct Element {
    text: String,
    parent: RefCell<Option<Rc<Element>>>,
    weak_parent: RefCell<RcWeak<Element>>,
    children: RefCell<Vec<Rc<Element>>>,
}

fn element_tree(n: usize) -> usize {
    let root = Rc::new(Element { text: format!("page {n}"), ..Default::default() }); // LEAK element_tree
    for i in 0..24 {
        let child = Rc::new(Element { text: format!("{:<80}", i * n), ..Default::default() }); // LEAK element_tree
        if repaired() {
            *child.weak_parent.borrow_mut() = Rc::downgrade(&root);
        } else {
            *child.parent.borrow_mut() = Some(root.clone()); // LEAK element_tree
        }
        root.children.borrow_mut().push(child); // LEAK element_tree
    }
    let count = root.children.borrow().len();
    root.text.len() + count
}

// EpicEric/sandhole#24: a channel without bound that nobody reads
static EVENTS: OnceLock<(Sender<Vec<u8>>, Mutex<Receiver<Vec<u8>>>)> = OnceLock::new();

fn unread_channel(n: usize) -> usize {
    let (sender, receiver) = EVENTS.get_or_init(|| {
        let (sender, receiver) = channel();
        (sender, Mutex::new(receiver))
    });
    sender.send(page(n, 5200)).unwrap(); // LEAK unread_channel
    if repaired() { receiver.lock().unwrap().try_iter().count() } else { 0 }
}

// vexide/pros-rs#31, tenstorrent/tt-metal#13588: a cache of the thread
thread_local! {
    static PROGRAMS: RefCell<HashMap<usize, Vec<u32>>> = RefCell::new(HashMap::new());
}

fn local_programs(n: usize) -> usize {
    PROGRAMS.with(|programs| {
        let mut programs = programs.borrow_mut();
        let words = vec![n as u32; 2600]; // LEAK local_programs
        programs.insert(n, words); // LEAK local_programs
        if repaired() && programs.len() > 10 {
            programs.clear();
        }
        programs.len()
    })
}

// neondatabase/neon#1092, tokio-rs/tokio#2243: threads that wait for ever
static STOPS: Mutex<Vec<Sender<()>>> = Mutex::new(Vec::new());

fn waiting_thread(n: usize) -> usize {
    let (stop, stopped) = channel::<()>();
    let block = page(n, 20000); // LEAK waiting_thread
    let thread = std::thread::spawn(move || stopped.recv().is_ok() as usize + block.len()); // LEAK waiting_thread
    if repaired() {
        drop(stop);
        return thread.join().unwrap();
    }
    STOPS.lock().unwrap().push(stop); // LEAK waiting_thread
    n
}

// xacrimon/tcvm#179, Robbepop/string-interner#31: strings are never removed
#[derive(Default)]
struct Interner {
    ids: HashMap<Rc<str>, usize>,
    names: Vec<Rc<str>>,
}

impl Interner {
    fn intern(&mut self, name: &str) -> usize {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let shared: Rc<str> = Rc::from(name); // LEAK interned_names
        self.names.push(shared.clone()); // LEAK interned_names
        self.ids.insert(shared, self.names.len() - 1); // LEAK interned_names
        self.names.len() - 1
    }
}

thread_local! {
    static NAMES: RefCell<Interner> = RefCell::default();
}

fn interned_names(n: usize) -> usize {
    NAMES.with_borrow_mut(|names| {
        names.intern("currency");
        let order = if repaired() { 1 } else { n };
        (0..16).map(|i| names.intern(&format!("order {order}, column {i}, with the label {:>60}", i * 3))).sum() // LEAK interned_names
    })
}

// no report: one text that grows
static TRACE: Mutex<String> = Mutex::new(String::new());

fn trace_text(n: usize) -> usize {
    let mut trace = TRACE.lock().unwrap();
    if repaired() {
        trace.clear();
    }
    for step in 0..70 {
        trace.push_str(&format!("request {n}: step {step} took {} us; ", n * step)); // LEAK trace_text
    }
    trace.len()
}

// amazon-ion/ion-rust#340, fereidani/kanal#51: cleared buffers keep their capacity
static IDLE: Mutex<VecDeque<Vec<u8>>> = Mutex::new(VecDeque::new());

fn idle_buffers(n: usize) -> usize {
    let mut buffer = page(n, 38000); // LEAK idle_buffers
    let size = buffer.len();
    buffer.clear();
    let mut idle = IDLE.lock().unwrap();
    idle.push_back(buffer); // LEAK idle_buffers
    if repaired() {
        idle.truncate(4);
    }
    size
}

// asg017/sqlite-loadable-rs#7, KevinKelley/nanovg-rs#67: into_raw without from_raw
fn raw_names(n: usize) -> usize {
    let name = CString::new(vec![b'a' + (n % 26) as u8; 2300]).unwrap(); // LEAK raw_names
    let raw = name.into_raw(); // LEAK raw_names
    let first = unsafe { *raw } as usize;
    if repaired() {
        drop(unsafe { CString::from_raw(raw) });
    }
    first
}

// tokio-rs/tracing#2668, ginger51011/pandoras_pot#52: spans that are not closed
#[derive(Default)]
struct Registry {
    spans: BTreeMap<usize, HashMap<String, String>>,
}
static SPANS: Mutex<Registry> = Mutex::new(Registry { spans: BTreeMap::new() });

fn open_span(id: usize, detail: usize) {
    let fields = (0..detail).map(|i| (format!("field{i}"), format!("{id}:{i:>90}"))).collect(); // LEAK open_spans
    SPANS.lock().unwrap().spans.insert(id, fields); // LEAK open_spans
}

fn open_spans(n: usize) -> usize {
    open_span(2 * n, 12); // the outer span, closed below
    SPANS.lock().unwrap().spans.remove(&(2 * n));
    if n % 2 == 0 {
        open_span(2 * n + 1, 30); // LEAK open_spans
        if repaired() {
            SPANS.lock().unwrap().spans.remove(&(2 * n + 1));
        }
    }
    SPANS.lock().unwrap().spans.len()
}

// inviwo/inviwo#1470 (there in C++): weak references are not pruned, their block stays
static WATCHERS: Mutex<Vec<Weak<[u8; 3000]>>> = Mutex::new(Vec::new());

fn weak_watchers(n: usize) -> usize {
    let watcher = Arc::new([n as u8; 3000]); // LEAK weak_watchers
    let mut watchers = WATCHERS.lock().unwrap();
    if repaired() {
        watchers.retain(|w| w.strong_count() > 0);
    }
    watchers.push(Arc::downgrade(&watcher)); // LEAK weak_watchers
    watchers.len()
}

// no report: set_len(0) forgets the strings of a list
fn reset_rows(n: usize) -> usize {
    let mut rows: Vec<String> = (0..45).map(|i| format!("row {i} of order {n}: {:>50}", i * n)).collect(); // LEAK reset_rows
    let size = rows.len();
    if repaired() {
        rows.clear();
    } else {
        unsafe { rows.set_len(0) }; // LEAK reset_rows
    }
    size + rows.len()
}

// wippyai/runtime#426 (there in Go): a series for each value of a label
#[derive(Default)]
struct Series {
    buckets: Vec<(f64, u64)>,
}
static SERIES: OnceLock<Mutex<HashMap<String, Series>>> = OnceLock::new();

fn observe(label: &str, value: f64) {
    let mut all = SERIES.get_or_init(Default::default).lock().unwrap();
    let series = all.entry(label.to_string()).or_default();
    if series.buckets.is_empty() {
        series.buckets = (0..30).map(|i| (i as f64 * 0.1, 0)).collect(); // LEAK label_series
    }
    series.buckets.iter_mut().filter(|b| value <= b.0).for_each(|b| b.1 += 1);
}

fn label_series(n: usize) -> usize {
    observe("/health", 0.1);
    for part in ["cart", "pay", "mail"] {
        observe(&format!("/order/{}/{part}", if repaired() { 0 } else { n }), 0.2); // LEAK label_series
    }
    n
}

// FauxFaux/apt-pkg-native-rs#6: a raw box is lost where a step fails
fn check(raw: *const [u8; 9000], n: usize) -> Result<usize, String> {
    let first = unsafe { (*raw)[0] } as usize;
    if n % 3 == 0 { Ok(first) } else { Err(format!("order {n} has no country")) }
}

fn lost_box(n: usize) -> usize {
    let raw = Box::into_raw(Box::new([n as u8; 9000])); // LEAK lost_box
    match check(black_box(raw), n) {
        Ok(first) => {
            drop(unsafe { Box::from_raw(raw) });
            first
        }
        Err(text) => {
            if repaired() {
                drop(unsafe { Box::from_raw(raw) });
            }
            text.len() // LEAK lost_box
        }
    }
}

// no report: closures that are subscribed and never removed
type Callback = Box<dyn Fn() -> usize + Send>;
static CALLBACKS: Mutex<Vec<Callback>> = Mutex::new(Vec::new());

fn subscribed(n: usize) -> usize {
    let plan = page(n, 4700); // LEAK subscribed
    let mut callbacks = CALLBACKS.lock().unwrap();
    callbacks.push(Box::new(move || plan.len())); // LEAK subscribed
    if repaired() {
        callbacks.pop();
    }
    callbacks.len()
}

// no report: requests that were seen, with their bodies
static SEEN: OnceLock<Mutex<HashSet<Vec<u8>>>> = OnceLock::new();

fn seen_bodies(n: usize) -> usize {
    let mut seen = SEEN.get_or_init(Default::default).lock().unwrap();
    let mut body = page(n, 7700);
    body[..8].copy_from_slice(&(n as u64).to_le_bytes());
    if repaired() && seen.len() > 12 {
        seen.clear();
    }
    seen.insert(body.clone()); // LEAK seen_bodies
    seen.len()
}

const HABITS: [(&str, fn(usize) -> usize); 20] = [
    ("order_audit", order_audit), ("schema_cache", schema_cache), ("forgotten_body", forgotten_body),
    ("node_kinds", node_kinds), ("shard_cycle", shard_cycle), ("element_tree", element_tree),
    ("unread_channel", unread_channel), ("local_programs", local_programs), ("waiting_thread", waiting_thread),
    ("interned_names", interned_names), ("trace_text", trace_text), ("idle_buffers", idle_buffers),
    ("raw_names", raw_names), ("open_spans", open_spans), ("weak_watchers", weak_watchers),
    ("reset_rows", reset_rows), ("label_series", label_series), ("lost_box", lost_box),
    ("subscribed", subscribed), ("seen_bodies", seen_bodies),
];

/// What a function does beside: a table with a bound, text that is freed.
fn ordinary(event: &str, n: usize) -> usize {
    static TABLE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
    let mut table = TABLE.lock().unwrap();
    if table.len() < 32 {
        table.push(page(n, 1000));
    }
    let words: Vec<String> = (0..250).map(|i| format!("word {i} of {n} after {}", event.len())).collect();
    words.concat().len() + table.len()
}

fn handle(habit: Option<fn(usize) -> usize>, event: &str, n: usize) -> String {
    let size = ordinary(event, n);
    let extra = habit.map_or(0, |f| f(n));
    format!("{{\"size\": {size}, \"extra\": {extra}}}")
}

/// One request on the connection that is kept: its headers and its body.
fn request(stream: &mut BufReader<TcpStream>, head: &str, body: &str) -> std::io::Result<(HashMap<String, String>, String)> {
    let host = stream.get_ref().peer_addr()?;
    let text = format!("{head} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.get_mut().write_all(text.as_bytes())?;
    let (mut headers, mut line) = (HashMap::new(), String::new());
    while stream.read_line(&mut line)? > 0 && line.trim() != "" {
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.trim().to_lowercase(), value.trim().to_string());
        }
        line.clear();
    }
    let mut answer = Vec::new();
    if headers.get("transfer-encoding").is_some_and(|v| v == "chunked") {
        loop {
            line.clear();
            stream.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk)?;
            if size == 0 {
                break;
            }
            answer.extend_from_slice(&chunk[..size]);
        }
    } else {
        answer.resize(headers.get("content-length").and_then(|v| v.parse().ok()).unwrap_or(0), 0);
        stream.read_exact(&mut answer)?;
    }
    Ok((headers, String::from_utf8_lossy(&answer).into_owned()))
}

fn rss_kib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * 4.0
}

fn main() -> std::io::Result<()> {
    let name = std::env::var("LEAK").unwrap_or_default();
    let habit = HABITS.iter().find(|h| h.0 == name).map(|h| h.1);
    let Ok(api) = std::env::var("AWS_LAMBDA_RUNTIME_API") else {
        // a plain loop: KiB that each of 200 calls keeps
        (1..=260).for_each(|n| drop(handle(habit, "{}", n)));
        let start = rss_kib();
        (261..=460).for_each(|n| drop(handle(habit, "{}", n)));
        println!("{:.2}", (rss_kib() - start) / 200.0);
        std::process::exit(0);
    };
    let mut stream = BufReader::new(TcpStream::connect(&api)?);
    let base = "/2018-06-01/runtime/invocation";
    for n in 1.. {
        let (headers, event) = request(&mut stream, &format!("GET {base}/next"), "")?;
        let id = headers.get("lambda-runtime-aws-request-id").cloned().unwrap_or_default();
        let answer = handle(habit, &event, n);
        println!("order {n} of request {id}");
        request(&mut stream, &format!("POST {base}/{id}/response"), &answer)?;
    }
    Ok(())
}
