package com.acme;

import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.Timer;
import java.util.TimerTask;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.zip.Deflater;
import org.tiny.Memo;

/** Leaks, each with its repaired twin. The line that keeps ends with the name of the leak. */
public class Planted {
    static final int SIZE = 8000;
    static int n;

    interface Case {
        void handle(boolean keeps) throws Exception;
    }

    static final Map<String, Case> CASES = new LinkedHashMap<>();

    static {
        CASES.put("static_list", Planted::staticList);
        CASES.put("made_elsewhere", Planted::madeElsewhere);
        CASES.put("map_cache", Planted::mapCache);
        CASES.put("thread_local", Planted::threadLocal);
        CASES.put("listeners", Planted::listeners);
        CASES.put("interned", Planted::interned);
        CASES.put("builder", Planted::builder);
        CASES.put("loaders", Planted::loaders);
        CASES.put("direct", Planted::direct);
        CASES.put("executors", Planted::executors);
        CASES.put("inner", Planted::inner);
        CASES.put("timer", Planted::timer);
        CASES.put("scheduled", Planted::scheduled);
        CASES.put("sessions", Planted::sessions);
        CASES.put("linked", Planted::linked);
        CASES.put("deque", Planted::deque);
        CASES.put("queue", Planted::queue);
        CASES.put("futures", Planted::futures);
        CASES.put("suppressed", Planted::suppressed);
        CASES.put("hooks", Planted::hooks);
        CASES.put("lists_by_key", Planted::listsByKey);
        CASES.put("tree", Planted::tree);
        CASES.put("small", Planted::small);
        CASES.put("library", Planted::library);
        CASES.put("deflaters", Planted::deflaters);
        CASES.put("local", Planted::local);
        CASES.put("replies", Planted::replies);
        CASES.put("pooled", Planted::pooled);
        CASES.put("passed", Planted::passed);
        CASES.put("rules", Planted::rules);
        CASES.put("threads", Planted::threads);
        CASES.put("beans", Planted::beans);
    }

    /** A cache that is full, of the same class as what leaks, and garbage. */
    static final Map<Integer, byte[]> FULL = new LinkedHashMap<>();

    static void beside() {
        for (int i = 0; i < 20; i++) {
            FULL.put(20 * n + i, new byte[2000]);
            FULL.remove(20 * n + i - 400);
            String.join(",", List.of("garbage", new String(new char[5000])));
        }
    }

    public static void handle(String event) throws Exception {
        n++;
        beside();
        boolean keeps = !event.contains("repaired");
        for (Map.Entry<String, Case> each : CASES.entrySet()) {
            if (event.contains("\"" + each.getKey() + "\"")) {
                each.getValue().handle(keeps);
                return;
            }
        }
        throw new IllegalArgumentException(event);
    }

    static void staticList(boolean keeps) {
        if (Orders.SEEN.size() >= 20 && !keeps) {
            Orders.SEEN.clear();
        }
        Orders.SEEN.add(new Orders.Order()); // static_list
    }

    static void madeElsewhere(boolean keeps) {
        Orders.Order order = Orders.made();
        if (Orders.SEEN.size() >= 20 && !keeps) {
            Orders.SEEN.clear();
        }
        Orders.SEEN.add(order); // made_elsewhere
    }

    static final Map<String, byte[]> PRICES = new HashMap<>();

    static void mapCache(boolean keeps) {
        byte[] price = new byte[SIZE]; // map_cache, too
        PRICES.put(keeps ? "price " + n : "price " + n % 10, price); // map_cache
    }

    static final ExecutorService POOL = Executors.newFixedThreadPool(1);
    static final ThreadLocal<List<byte[]>> BUFFERS = ThreadLocal.withInitial(ArrayList::new);

    static void threadLocal(boolean keeps) throws Exception {
        Future<?> done = POOL.submit(() -> {
            BUFFERS.get().add(new byte[SIZE]); // thread_local
            if (!keeps) {
                BUFFERS.remove();
            }
        });
        done.get();
    }

    static class Shop {
        static final Shop ONLY = new Shop();
        final List<Consumer<String>> listeners = new CopyOnWriteArrayList<>();

        void onSale(Consumer<String> listener) {
            listeners.add(listener); // listeners
        }
    }

    static void listeners(boolean keeps) {
        byte[] page = new byte[SIZE]; // listeners, too
        Consumer<String> listener = sold -> page[0]++; // listeners, too
        Shop.ONLY.onSale(listener);
        if (!keeps) {
            Shop.ONLY.listeners.remove(listener);
        }
    }

    static final Set<String> NAMES = new HashSet<>();

    static void interned(boolean keeps) {
        String name = ("n" + n + "-").repeat(SIZE / 5).intern(); // interned, too
        if (keeps) {
            NAMES.add(name); // interned
        }
    }

    static final StringBuilder LOG = new StringBuilder();

    static void builder(boolean keeps) {
        if (!keeps) {
            LOG.setLength(0);
        }
        LOG.append("a line of the log ".repeat(400)); // builder
    }

    static class OwnLoader extends ClassLoader {
        Class<?> plugin() throws Exception {
            try (InputStream code = Planted.class.getResourceAsStream("Plugin.class")) {
                byte[] bytes = code.readAllBytes();
                return defineClass("com.acme.Plugin", bytes, 0, bytes.length); // loaders, too
            }
        }
    }

    static final List<Object> PLUGINS = new ArrayList<>();

    static void loaders(boolean keeps) throws Exception {
        Object plugin = new OwnLoader().plugin().getDeclaredConstructor().newInstance(); // loaders, too
        if (keeps) {
            PLUGINS.add(plugin); // loaders
        }
    }

    static final List<ByteBuffer> DIRECT = new ArrayList<>();

    static void direct(boolean keeps) {
        if (!keeps) {
            DIRECT.clear();
        }
        DIRECT.add(ByteBuffer.allocateDirect(SIZE)); // direct
    }

    static void executors(boolean keeps) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(1);
        pool.submit(() -> n).get(); // executors
        if (!keeps) {
            pool.shutdown();
            pool.awaitTermination(1, TimeUnit.SECONDS);
        }
    }

    static class Report {
        final byte[] pages = new byte[SIZE]; // inner, too

        class Row {
            int number = n;
        }
    }

    static final List<Report.Row> ROWS = new ArrayList<>();

    static void inner(boolean keeps) {
        Report report = new Report(); // inner, too
        if (!keeps) {
            ROWS.clear();
        }
        ROWS.add(report.new Row()); // inner
    }

    static final Timer TIMER = new Timer(true);

    static void timer(boolean keeps) {
        byte[] page = new byte[SIZE]; // timer, too
        TimerTask task = new TimerTask() {
            @Override
            public void run() {
                page[0]++;
            }
        };
        TIMER.schedule(task, 3_600_000); // timer
        if (!keeps) {
            task.cancel();
            TIMER.purge();
        }
    }

    static final ScheduledExecutorService LATER = Executors.newScheduledThreadPool(1);

    static void scheduled(boolean keeps) {
        byte[] page = new byte[SIZE]; // scheduled, too
        Future<?> timeout = LATER.schedule(() -> page[0]++, 1, TimeUnit.HOURS); // scheduled
        if (!keeps) {
            timeout.cancel(false);
            ((java.util.concurrent.ScheduledThreadPoolExecutor) LATER).purge();
        }
    }

    static final Map<String, Map<String, byte[]>> SESSIONS = new ConcurrentHashMap<>();

    static void sessions(boolean keeps) {
        String id = "session " + n;
        SESSIONS.computeIfAbsent(id, each -> new HashMap<>()).put("page", new byte[SIZE]); // sessions
        if (!keeps) {
            SESSIONS.remove(id);
        }
    }

    static class Link {
        final byte[] payload = new byte[SIZE];
        Link next;
    }

    static Link head;

    static void linked(boolean keeps) {
        Link link = new Link(); // linked
        link.next = keeps ? head : null;
        head = link;
    }

    static final Deque<byte[]> DEQUE = new ArrayDeque<>();

    static void deque(boolean keeps) {
        DEQUE.addLast(new byte[SIZE]); // deque
        if (!keeps) {
            DEQUE.removeFirst();
        }
    }

    static final Queue<byte[]> QUEUE = new LinkedList<>();

    static void queue(boolean keeps) {
        QUEUE.offer(new byte[SIZE]); // queue
        if (!keeps) {
            QUEUE.poll();
        }
    }

    static final CompletableFuture<String> NEVER = new CompletableFuture<>();

    static void futures(boolean keeps) {
        byte[] page = new byte[SIZE]; // futures, too
        CompletableFuture<String> of = keeps ? NEVER : new CompletableFuture<>();
        of.thenAccept(answer -> page[0]++); // futures
    }

    static final RuntimeException SHARED = new RuntimeException("shared");

    static void suppressed(boolean keeps) {
        RuntimeException closed = new RuntimeException("closed ".repeat(SIZE / 7)); // suppressed, too
        if (keeps) {
            SHARED.addSuppressed(closed); // suppressed
        }
    }

    static void hooks(boolean keeps) {
        byte[] page = new byte[SIZE]; // hooks, too
        Thread hook = new Thread(() -> page[0]++); // hooks
        Runtime.getRuntime().addShutdownHook(hook); // hooks, too
        if (!keeps) {
            Runtime.getRuntime().removeShutdownHook(hook);
        }
    }

    static final Map<Integer, List<byte[]>> BY_KEY = new HashMap<>();

    static void listsByKey(boolean keeps) {
        List<byte[]> list = BY_KEY.computeIfAbsent(n % 7, key -> new ArrayList<>());
        if (!keeps) {
            list.clear();
        }
        list.add(new byte[SIZE]); // lists_by_key
    }

    static final TreeMap<Long, String> TREE = new TreeMap<>();

    static void tree(boolean keeps) {
        TREE.put(System.nanoTime(), new String(new char[SIZE])); // tree
        if (!keeps) {
            TREE.pollFirstEntry();
        }
    }

    static final List<Long> IDS = new ArrayList<>();

    static void small(boolean keeps) {
        if (!keeps && IDS.size() > 5000) {
            IDS.clear();
        }
        for (int i = 0; i < 150; i++) {
            IDS.add(System.nanoTime()); // small
        }
    }

    static void library(boolean keeps) {
        String key = "answer " + n;
        Memo.remember(key, () -> new byte[SIZE]); // library
        if (!keeps) {
            Memo.forget(key);
        }
    }

    static final List<Deflater> DEFLATERS = new ArrayList<>();

    static void deflaters(boolean keeps) {
        Deflater deflater = new Deflater(); // deflaters
        deflater.setInput(new byte[100]);
        deflater.deflate(new byte[100]);
        if (keeps) {
            DEFLATERS.add(deflater); // deflaters, too
        } else {
            deflater.end();
        }
    }

    static final ByteArrayOutputStream WHOLE = new ByteArrayOutputStream();
    static Object[] kept = new Object[0];

    static void local(boolean keeps) {
        Object[] more = new Object[keeps ? kept.length + 1 : 1]; // local, too
        System.arraycopy(kept, 0, more, 0, keeps ? kept.length : 0);
        more[more.length - 1] = new byte[SIZE]; // local
        kept = more; // local, too
    }

    static final Map<Integer, CompletableFuture<String>> REPLIES = new ConcurrentHashMap<>();

    static void replies(boolean keeps) {
        byte[] request = new byte[SIZE]; // replies, too
        CompletableFuture<String> reply = new CompletableFuture<>();
        reply.thenAccept(text -> request[0]++);
        REPLIES.put(n, reply); // replies
        if (!keeps) {
            REPLIES.remove(n).complete("");
        }
    }

    static final ThreadLocal<Map<Integer, Deque<ByteBuffer>>> FREE = ThreadLocal.withInitial(HashMap::new);

    static void pooled(boolean keeps) {
        int size = keeps ? SIZE + n : SIZE;
        ByteBuffer free = FREE.get().computeIfAbsent(size, each -> new ArrayDeque<>()).poll();
        ByteBuffer used = free != null ? free : ByteBuffer.allocateDirect(size); // pooled
        FREE.get().get(size).add(used); // pooled, too
    }

    static final List<String> LINES = new ArrayList<>();

    static void write(List<String> into) {
        for (int i = 0; i < 35; i++) {
            into.add("line " + n + "/" + i + " " + "x".repeat(100));
        }
    }

    static void passed(boolean keeps) {
        write(new ArrayList<>());
        write(LINES); // passed
        if (!keeps) {
            LINES.clear();
        }
    }

    static class RuleLoader extends ClassLoader {
        RuleLoader() {
            super(RuleLoader.class.getClassLoader());
        }

        Class<?> rule() throws Exception {
            try (InputStream code = Planted.class.getResourceAsStream("Rule.class")) {
                byte[] bytes = code.readAllBytes();
                return defineClass("com.acme.Rule", bytes, 0, bytes.length);
            }
        }
    }

    static final Map<String, Object> RULES = new HashMap<>();

    static void rules(boolean keeps) throws Exception {
        String text = "rule " + (keeps ? n : n % 3);
        if (!RULES.containsKey(text)) {
            Object rule = new RuleLoader().rule().getDeclaredConstructor().newInstance(); // rules
            RULES.put(text, rule); // rules, too
        }
    }

    static void threads(boolean keeps) throws Exception {
        Thread thread = new Thread(() -> { // threads
            try {
                Thread.sleep(keeps ? 3_600_000 : 0);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }, "waits-" + n);
        thread.setDaemon(true);
        thread.start(); // threads, too
        if (!keeps) {
            thread.join();
        }
    }

    static class Bean {
        final Map<Integer, byte[]> pages = new HashMap<>();

        void read(boolean keeps) {
            pages.put(keeps ? n : n % 7, new byte[SIZE]); // beans
        }
    }

    static final Map<Integer, Bean> BEANS = new ConcurrentHashMap<>();

    static void beans(boolean keeps) {
        BEANS.computeIfAbsent(n % 4, each -> new Bean()).read(keeps);
    }
}
