package com.acme;

import java.io.InputStream;
import java.io.RandomAccessFile;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.IntFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.Deflater;
import java.util.zip.Inflater;
import org.tiny.Cache;

/** Takes memory without end in the way that the event names; a line that does is marked with its name. */
public class RunsOut {
    static final List<Object> HELD = new ArrayList<>();
    static volatile Object last;

    static class Node {
        final Node next;
        final long a = 1, b = 2, c = 3;

        Node(Node next) {
            this.next = next;
        }
    }

    static class Order {
        final byte[] payload;

        Order(int size) {
            payload = new byte[size]; // constructors
        }
    }

    static void arrays() {
        while (true) {
            HELD.add(new byte[1 << 20]); // arrays
        }
    }

    static void smallArrays() {
        while (true) {
            HELD.add(new byte[5_000]); // smallArrays
        }
    }

    static void paused() throws Exception {
        while (true) {
            HELD.add(new byte[1 << 20]); // paused
            Thread.sleep(2);
        }
    }

    static void oneArray() {
        HELD.add(new byte[1 << 30]); // oneArray
    }

    static void objectArrays() {
        while (true) {
            HELD.add(new Object[100_000]); // objectArrays
        }
    }

    static void matrices() {
        while (true) {
            HELD.add(new double[100][1000]); // matrices
        }
    }

    static void constructors() {
        while (true) {
            HELD.add(new Order(200_000)); // constructors
        }
    }

    static void nodes() {
        Node node = null;
        while (true) {
            node = new Node(node); // nodes
            last = node;
        }
    }

    static void boxes() {
        List<Long> numbers = new ArrayList<>();
        HELD.add(numbers);
        for (long number = 0; ; number++) {
            numbers.add(number); // boxes
        }
    }

    static void maps() {
        Map<Integer, int[]> map = new HashMap<>();
        HELD.add(map);
        for (int number = 0; ; number++) {
            map.put(number, new int[50]); // maps
        }
    }

    static void concurrentMap() {
        Map<String, String> map = new ConcurrentHashMap<>();
        HELD.add(map);
        for (int number = 0; ; number++) {
            map.put("key" + number, "value" + number); // concurrentMap
        }
    }

    static void builder() {
        StringBuilder text = new StringBuilder();
        HELD.add(text);
        while (true) {
            text.append("twelve chars"); // builder
        }
    }

    static void strings() {
        for (int number = 0; ; number++) {
            HELD.add("order " + number + " of the customer"); // strings
        }
    }

    static void formatted() {
        for (int number = 0; ; number++) {
            HELD.add(String.format("order %d of %s", number, "the customer")); // formatted
        }
    }

    static void repeated() {
        while (true) {
            HELD.add("0123456789".repeat(10_000)); // repeated
        }
    }

    static void copies() {
        byte[] bytes = new byte[100_000];
        while (true) {
            HELD.add(Arrays.copyOf(bytes, 100_000)); // copies
        }
    }

    static void clones() {
        byte[] bytes = new byte[100_000];
        while (true) {
            HELD.add(bytes.clone()); // clones
        }
    }

    static void doubling() {
        byte[] bytes = new byte[1 << 20];
        while (true) {
            bytes = Arrays.copyOf(bytes, bytes.length + (16 << 20)); // doubling
            HELD.add(bytes);
        }
    }

    static void big() {
        while (true) {
            HELD.add(BigInteger.ONE.shiftLeft(1_000_000)); // big
        }
    }

    static void deque() {
        Deque<int[]> queue = new ArrayDeque<>();
        HELD.add(queue);
        while (true) {
            queue.add(new int[10]); // deque
        }
    }

    static void direct() {
        while (true) {
            HELD.add(ByteBuffer.allocateDirect(1 << 20)); // direct
        }
    }

    static void oneDirect() {
        HELD.add(ByteBuffer.allocateDirect(1 << 30)); // oneDirect
    }

    static void mapped() throws Exception {
        try (RandomAccessFile file = new RandomAccessFile("/dev/shm/runsout" + ProcessHandle.current().pid(), "rw")) {
            new java.io.File("/dev/shm/runsout" + ProcessHandle.current().pid()).delete();
            MappedByteBuffer view = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 1 << 30);
            HELD.add(view);
            for (int at = 0; at < 1 << 30; at += 4096) {
                view.put(at, (byte) 1); // mapped
            }
        }
    }

    static void loaded() throws Exception {
        try (RandomAccessFile file = new RandomAccessFile("/dev/shm/runsout" + ProcessHandle.current().pid(), "rw")) {
            new java.io.File("/dev/shm/runsout" + ProcessHandle.current().pid()).delete();
            MappedByteBuffer view = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 1 << 30);
            HELD.add(view);
            view.load(); // loaded
        }
    }

    static void written() throws Exception {
        byte[] bytes = new byte[1 << 20];
        RandomAccessFile file = new RandomAccessFile("/dev/shm/runsout" + ProcessHandle.current().pid(), "rw");
        new java.io.File("/dev/shm/runsout" + ProcessHandle.current().pid()).delete();
        HELD.add(file);
        while (true) {
            file.write(bytes); // written
        }
    }

    static void whole() throws Exception {
        try (InputStream zero = new java.io.FileInputStream("/dev/zero")) {
            HELD.add(zero.readNBytes(1 << 30)); // whole
        }
    }

    static void deflaters() {
        byte[] bytes = new byte[100_000], out = new byte[100_000];
        new java.util.Random(1).nextBytes(bytes);
        while (true) {
            Deflater deflater = new Deflater(); // deflaters
            deflater.setInput(bytes);
            HELD.add(deflater);
            deflater.deflate(out); // deflaters
        }
    }

    static void deflatersAndGarbage() {
        byte[] bytes = new byte[100_000], out = new byte[100_000];
        new java.util.Random(1).nextBytes(bytes);
        while (true) {
            Deflater deflater = new Deflater(); // deflatersAndGarbage
            deflater.setInput(bytes);
            HELD.add(deflater);
            deflater.deflate(out); // deflatersAndGarbage
            for (int each = 0; each < 10; each++) {
                last = new byte[20_000];
            }
        }
    }

    static void inflaters() throws Exception {
        Deflater deflater = new Deflater();
        deflater.setInput(new byte[40_000]);
        deflater.finish();
        byte[] bytes = new byte[10_000], out = new byte[40_000];
        int size = deflater.deflate(bytes);
        while (true) {
            Inflater inflater = new Inflater(); // inflaters
            inflater.setInput(bytes, 0, size);
            HELD.add(inflater);
            inflater.inflate(out); // inflaters
        }
    }

    static int deep(int left) {
        return left == 0 ? 0 : deep(left - 1) + 1; // stacks
    }

    static void stacks() {
        while (true) {
            Thread thread = new Thread(null, () -> {
                deep(40_000); // stacks
                try {
                    Thread.sleep(60_000);
                } catch (InterruptedException error) {
                    return;
                }
            }, "deep", 16 << 20);
            thread.setDaemon(true);
            thread.start(); // stacks
        }
    }

    static void anotherThread() throws Exception {
        Thread thread = new Thread(() -> {
            while (true) {
                HELD.add(new byte[100_000]); // anotherThread
            }
        });
        thread.start();
        thread.join();
    }

    static void whileOthersRun() throws Exception {
        Thread busy = new Thread(() -> {
            long sum = 0;
            while (true) {
                last = new byte[100];
                sum += System.nanoTime();
                Thread.yield();
            }
        });
        busy.setDaemon(true);
        busy.start();
        while (true) {
            HELD.add(new byte[300_000]); // whileOthersRun
        }
    }

    static void parallel() {
        HELD.add(
                IntStream.range(0, 1 << 20)
                        .parallel()
                        .mapToObj(each -> new byte[50_000]) // parallel
                        .collect(Collectors.toList()));
    }

    static void stream() {
        HELD.add(
                IntStream.range(0, 1 << 30)
                        .mapToObj(each -> new int[each % 1000]) // stream
                        .collect(Collectors.toList())); // stream
    }

    static void library() {
        Cache cache = new Cache();
        HELD.add(cache);
        while (true) {
            cache.keep(500_000); // library
        }
    }

    static void lambda() {
        IntFunction<byte[]> make = size -> {
            int more = size + 1;
            return new byte[more]; // lambda
        };
        while (true) {
            HELD.add(make.apply(300_000));
        }
    }

    static Object parse(int depth) {
        if (depth == 0) {
            return "a value of some length ".concat(String.valueOf(System.nanoTime())); // json
        }
        Map<String, Object> object = new LinkedHashMap<>(); // json
        for (int each = 0; each < 5; each++) {
            object.put("key" + each, parse(depth - 1)); // json
        }
        List<Object> list = new ArrayList<>(); // json
        list.add(object); // json
        return list;
    }

    static void json() {
        while (true) {
            HELD.add(parse(5)); // json
        }
    }

    static void classes() throws Exception {
        byte[] code;
        try (InputStream file = RunsOut.class.getResourceAsStream("RunsOut.class")) {
            code = file.readAllBytes();
        }
        while (true) {
            HELD.add(
                    new ClassLoader() { // classes
                        Class<?> make() {
                            return defineClass("com.acme.RunsOut", code, 0, code.length); // classes
                        }
                    }.make()); // classes
        }
    }

    static void proxies() {
        while (true) {
            ClassLoader loader = new ClassLoader() {}; // proxies
            HELD.add(
                    java.lang.reflect.Proxy.newProxyInstance( // proxies
                            loader, new Class<?>[] {Runnable.class}, (a, b, c) -> null)); // proxies
        }
    }

    static void garbage() {
        while (true) {
            for (int each = 0; each < 9; each++) {
                last = new byte[30_000]; // garbage
            }
            HELD.add(new byte[30_000]); // garbage
        }
    }

    static void reads() throws Exception {
        byte[] bytes = new byte[200_000];
        try (RandomAccessFile file = new RandomAccessFile("/proc/self/exe", "r")) {
            while (true) {
                file.seek(0);
                file.read(bytes, 0, 8_000);
                HELD.add(new int[100]); // reads
            }
        }
    }

    static void readsAndMapped() throws Exception {
        byte[] bytes = new byte[200_000];
        RandomAccessFile shared = new RandomAccessFile("/dev/shm/runsout" + ProcessHandle.current().pid(), "rw");
        new java.io.File("/dev/shm/runsout" + ProcessHandle.current().pid()).delete();
        MappedByteBuffer view = shared.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 1 << 30);
        HELD.add(view);
        try (RandomAccessFile file = new RandomAccessFile("/proc/self/exe", "r")) {
            for (int at = 0; at < 1 << 30; at += 4096) {
                file.seek(0);
                file.read(bytes, 0, 8_000);
                view.put(at, (byte) 1); // readsAndMapped
            }
        }
    }

    static void exceptions() {
        while (true) {
            HELD.add(new IllegalStateException("no order")); // exceptions
        }
    }

    static void anotherProgram() throws Exception {
        new ProcessBuilder("tail", "-n", "1", "/dev/zero").start().waitFor();
    }

    static void anotherJvm() throws Exception {
        String java = ProcessHandle.current().info().command().get();
        String path = System.getProperty("java.class.path");
        new ProcessBuilder(java, "-Xmx2g", "-XX:+UseSerialGC", "-cp", path, "com.acme.RunsOut", "arrays")
                .inheritIO()
                .start()
                .waitFor();
    }

    static void lives() {
        while (HELD.size() < 330) {
            HELD.add(new byte[1 << 20]);
        }
        HELD.clear();
    }

    public static void main(String[] arguments) throws Exception {
        handle("{\"do\":\"" + arguments[0] + "\"}");
    }

    public static void handle(String event) throws Exception {
        String[] words = event.split("\"");
        if (words.length > 3) {
            RunsOut.class.getDeclaredMethod(words[3]).invoke(null);
        }
    }
}
