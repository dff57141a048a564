import java.io.*;
import java.lang.management.*;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;

/** A small shop back end. LEAK chooses one of its services, REPAIRED=1 runs it with its repair. */
public final class App {
    static final boolean REPAIRED = "1".equals(System.getenv("REPAIRED"));
    static final String NAME = System.getenv("LEAK");

    // ---- services of this file

    // hortonworks/ratis#7: rows are only added, an export that should empty the map is never called
    static final Map<String, byte[]> AUDIT = new HashMap<>();
    static void orderAudit(int n) {
        byte[] row = ("order " + n + " paid; ").repeat(400).getBytes(); // LEAK order_audit
        AUDIT.put("o-" + n, row); // LEAK order_audit
        if (REPAIRED && AUDIT.size() > 16) AUDIT.clear();
    }

    // SAP/neonbee#599: thread local of a pool thread, remove() is forgotten
    static final ThreadLocal<List<char[]>> TRAIL = ThreadLocal.withInitial(ArrayList::new);
    static final ExecutorService WORKERS = Executors.newFixedThreadPool(2, App::daemon);
    static void threadContext(int n) throws Exception {
        WORKERS.submit(() -> {
            for (int step = 0; step < 4; step++) TRAIL.get().add(json(n, 12).toCharArray()); // LEAK thread_context
            if (REPAIRED) TRAIL.remove();
        }).get();
    }

    // netty/netty#9151, reactor/reactor-core#1710: one exception object for all, each cause is added to it
    static final class Slow extends Exception {
        Slow(String text, boolean suppression) { super(text, null, suppression, false); }
    }
    static final Slow TIMEOUT = new Slow("stock timed out", !REPAIRED);
    static void stockOf(int n) throws Slow {
        try {
            if (n % 3 == 0) throw new IllegalStateException("503 " + "stock busy ".repeat(2000)); // LEAK shared_error
            json(n, 10);
        } catch (IllegalStateException e) {
            TIMEOUT.addSuppressed(e); // LEAK shared_error
            throw TIMEOUT;
        }
    }
    static void sharedError(int n) {
        try { stockOf(n); } catch (Slow e) { log("stock: " + e.getMessage()); }
    }

    // a list of rows, called from three places: the third keeps its list
    static final List<String> SEEN = new ArrayList<>();
    static int collect(List<String> into, int n, int rows) {
        for (int i = 0; i < rows; i++) into.add("row " + n + "/" + i + " " + "x".repeat(100));
        return into.size();
    }
    static void rowCollect(int n) {
        collect(new ArrayList<>(), n, 60);
        collect(new LinkedList<>(), n, 30);
        if (n % 2 == 0) collect(SEEN, n, 70); // LEAK row_collect
        if (REPAIRED) SEEN.clear();
    }

    // ---- ordinary work of each call

    static final Map<Integer, byte[]> PAGES = new LinkedHashMap<>(64, 0.75f, true) {
        @Override protected boolean removeEldestEntry(Map.Entry<Integer, byte[]> e) { return size() > 24; }
    };
    static final Map<Integer, java.lang.ref.SoftReference<String>> TEXTS = new HashMap<>();

    static String json(int n, int fields) {
        StringBuilder b = new StringBuilder("{\"order\":").append(n);
        for (int i = 0; i < fields; i++) b.append(",\"field").append(i).append("\":\"value ").append(i * n).append('"');
        return b.append('}').toString();
    }
    static Map<String, String> parse(String json) {
        Map<String, String> all = new TreeMap<>();
        for (String pair : json.substring(1, json.length() - 1).split(",")) {
            int colon = pair.indexOf(':');
            if (colon > 0) all.put(pair.substring(0, colon), pair.substring(colon + 1));
        }
        return all;
    }
    static byte[] zip(String text) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (OutputStream zip = new java.util.zip.GZIPOutputStream(out)) { zip.write(text.getBytes()); }
        return out.toByteArray();
    }
    static void log(String text) { if (NAME == null) System.out.println(text); else System.err.println("[shop] " + text); }
    static Thread daemon(Runnable r) { Thread t = new Thread(r); t.setDaemon(true); return t; }

    static String ordinary(int n) throws IOException {
        PAGES.put(n % 40, new byte[3000]);
        TEXTS.computeIfAbsent(n % 10, k -> new java.lang.ref.SoftReference<>("text ".repeat(200)));
        Map<String, String> fields = parse(json(n, 80));
        List<Integer> sorted = new ArrayList<>();
        for (String v : fields.values()) sorted.add(v.hashCode());
        Collections.sort(sorted);
        if (n % 20 == 0) log("order " + n + ", " + sorted.size() + " fields");
        return "{\"fields\":" + fields.size() + ",\"zip\":" + zip(fields.toString()).length + "}";
    }

    static String handle(int n) throws Exception {
        String answer = ordinary(n);
        switch (NAME == null ? "" : NAME) {
            case "order_audit": orderAudit(n); break;
            case "thread_context": threadContext(n); break;
            case "shared_error": sharedError(n); break;
            case "row_collect": rowCollect(n); break;
            case "price_key": new shop.Prices(REPAIRED).price(n); break;
            case "label_table": new shop.Prices(REPAIRED).labels(n); break;
            case "session_listener": new shop.Sessions(REPAIRED).visit(n); break;
            case "weak_owner": new shop.Sessions(REPAIRED).dialog(n); break;
            case "page_view": new shop.Sessions(REPAIRED).page(n); break;
            case "reply_futures": net.Replies.ask(n, REPAIRED); break;
            case "timeout_task": net.Replies.guarded(n, REPAIRED); break;
            case "codec_pool": net.Codecs.receive(zlib(json(n, 300)), REPAIRED); break;
            case "image_buffer": net.Codecs.image(n, REPAIRED); break;
            case "upload_tmp": net.Codecs.upload(n, REPAIRED); break;
            case "job_metrics": jobs.Jobs.measured(n, REPAIRED); break;
            case "report_hook": jobs.Jobs.report(n, REPAIRED); break;
            case "worker_pool": jobs.Jobs.hashes(n, REPAIRED); break;
            case "event_queue": jobs.Jobs.event(n, REPAIRED); break;
            case "retry_timer": jobs.Jobs.retry(n, REPAIRED); break;
            case "log_handler": jobs.Jobs.imported(n, REPAIRED); break;
            case "rule_loader": rules.Rules.apply(n, REPAIRED); break;
            case "": break;
            default: throw new IllegalArgumentException(NAME);
        }
        return answer;
    }
    static byte[] zlib(String text) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (OutputStream zip = new java.util.zip.DeflaterOutputStream(out)) { zip.write(text.getBytes()); }
        return out.toByteArray();
    }

    // ---- Lambda's Runtime API, and the plain loop for the truth

    static HttpURLConnection open(String path) throws IOException {
        return (HttpURLConnection) new URL("http://" + System.getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/" + path).openConnection();
    }
    static int calls;
    static long kept() throws Exception {
        for (int i = 0; i < 4; i++) { System.gc(); Thread.sleep(60); handle(++calls); }
        System.gc();
        long sum = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
        for (BufferPoolMXBean p : ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class)) sum += p.getMemoryUsed();
        for (MemoryPoolMXBean p : ManagementFactory.getMemoryPoolMXBeans()) if (p.getName().equals("Metaspace")) sum += p.getUsage().getUsed();
        return sum / 1024;
    }
    static long rss() throws IOException {
        for (String line : java.nio.file.Files.readAllLines(java.nio.file.Path.of("/proc/self/status")))
            if (line.startsWith("VmRSS")) return Long.parseLong(line.replaceAll("\\D", ""));
        return 0;
    }
    static void loop(int count) throws Exception {
        while (calls < 400) handle(++calls);
        kept();
        long before = kept(), rss = rss(), first = calls;
        for (int i = 0; i < count; i++) handle(++calls);
        long after = kept();
        System.out.printf("%.2f %.2f%n", (after - before) / (double) (calls - first), (rss() - rss) / (double) (calls - first));
        Runtime.getRuntime().halt(0);
    }

    public static void main(String[] args) throws Exception {
        if (args.length > 0) loop(Integer.parseInt(args[0]));
        for (int n = 1; ; n++) {
            HttpURLConnection next = open("next");
            try (InputStream in = next.getInputStream()) { in.readAllBytes(); }
            HttpURLConnection post = open(next.getHeaderField("Lambda-Runtime-Aws-Request-Id") + "/response");
            post.setRequestMethod("POST");
            post.setDoOutput(true);
            try (OutputStream out = post.getOutputStream()) { out.write(handle(n).getBytes(StandardCharsets.UTF_8)); }
            try (InputStream in = post.getInputStream()) { in.readAllBytes(); }
        }
    }
}
