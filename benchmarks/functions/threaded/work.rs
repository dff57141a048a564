//! A function in Rust: one thread, one connection to the Runtime API, and the kind of work that the event names.
use std::collections::HashMap;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::TcpStream;

const MIB: usize = 1 << 20;
const PATH: &str = "/2018-06-01/runtime/invocation/";

/// Reads a response; its request id and its body.
fn response(api: &mut BufReader<TcpStream>) -> Result<(String, String)> {
    let (mut id, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        api.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            match name.to_ascii_lowercase().as_str() {
                "lambda-runtime-aws-request-id" => id = value.trim().to_string(),
                "content-length" => length = value.trim().parse().unwrap(),
                _ => {}
            }
        }
    }
    let mut body = vec![0; length];
    api.read_exact(&mut body)?;
    Ok((id, String::from_utf8_lossy(&body).into_owned()))
}

fn touch(size: usize) {
    black_box(vec![1_u8; size]);
}

/// Numbers that no crate is needed for.
fn numbers(count: u64) -> impl Iterator<Item = u64> {
    (0..count).scan(1_u64, |state, _| {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Some(*state >> 33)
    })
}

/// Works, and returns the answer.
fn work(event: &str, kept: &mut HashMap<u64, Vec<u8>>) -> String {
    let kind = |name: &str| event.contains(name);
    if kind("touch") {
        touch(50 * MIB);
    } else if kind("twice") {
        touch(30 * MIB);
        touch(40 * MIB);
    } else if kind("buffers") {
        (0..4).for_each(|_| touch(5 * MIB));
    } else if kind("sorting") {
        let mut unsorted: Vec<u64> = numbers(100_000).collect();
        unsorted.sort();
        black_box(unsorted);
    } else if kind("table") {
        black_box((0..50_000).map(|n| (n, format!("order {n}"))).collect::<HashMap<_, _>>());
    } else if kind("caching") {
        for n in numbers(40) {
            kept.insert((n + kept.len() as u64) % 100, vec![1; 200_000]);
        }
    } else if kind("answer") {
        return "x".repeat(1_000_000);
    }
    "ok".to_string()
}

fn main() -> Result<()> {
    let mut api = BufReader::new(TcpStream::connect(std::env::var("AWS_LAMBDA_RUNTIME_API").unwrap())?);
    api.get_ref().set_nodelay(true)?;
    let mut kept = HashMap::new();
    loop {
        write!(api.get_mut(), "GET {PATH}next HTTP/1.1\r\nHost: api\r\n\r\n")?;
        let (id, event) = response(&mut api)?;
        let answer = format!("\"{}\"", work(&event, &mut kept));
        let length = answer.len();
        let head = format!("POST {PATH}{id}/response HTTP/1.1\r\nHost: api\r\nContent-Length: {length}\r\n\r\n");
        api.get_mut().write_all(head.as_bytes())?;
        api.get_mut().write_all(answer.as_bytes())?;
        response(&mut api)?;
    }
}
