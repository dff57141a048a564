package jobs;

import java.lang.management.ManagementFactory;
import java.util.*;
import java.util.concurrent.*;
import java.util.logging.*;
import javax.management.*;

public final class Jobs {
    public interface StatsMBean { int getRows(); }
    public static final class Stats implements StatsMBean {
        final int[] histogram = new int[1400]; // LEAK job_metrics
        @Override public int getRows() { return histogram[0]; }
    }
    /** confluentinc/ksql#812, alibaba/druid#2329: a bean for each job, never unregistered. */
    public static void measured(int n, boolean repaired) throws JMException {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        ObjectName name = new ObjectName("shop.jobs:type=Job,id=" + n);
        Stats stats = new Stats();
        server.registerMBean(stats, name); // LEAK job_metrics
        stats.histogram[0] = n;
        if (repaired) server.unregisterMBean(name);
    }

    /** apache/gobblin#802, graphhopper/jsprit#282: a shutdown hook for each report. */
    public static int report(int n, boolean repaired) {
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < 150; i++) lines.add("line " + i + " of report " + n + " " + "-".repeat(120)); // LEAK report_hook
        Thread hook = new Thread(lines::clear);
        Runtime.getRuntime().addShutdownHook(hook); // LEAK report_hook
        int size = lines.size();
        if (repaired) Runtime.getRuntime().removeShutdownHook(hook);
        return size;
    }

    /** A pool for each call that nobody shuts down (NCEAS/metacat#1442). */
    public static int hashes(int n, boolean repaired) throws Exception {
        if (n % 2 == 0) return 0;
        ExecutorService pool = Executors.newFixedThreadPool(1, r -> { Thread t = new Thread(r, "hash-" + n); t.setDaemon(true); return t; }); // LEAK worker_pool
        Future<Integer> hash = pool.submit(() -> Arrays.hashCode(("order " + n).repeat(300).getBytes())); // LEAK worker_pool
        int result = hash.get();
        if (repaired) pool.shutdown();
        return result;
    }

    /** The consumer ends with an exception, the queue has no bound (rabbitmq/rabbitmq-java-client#24). */
    static final BlockingQueue<byte[]> QUEUE = new LinkedBlockingQueue<>();
    static Thread consumer;
    static void consume(boolean repaired) {
        while (true) {
            try {
                if (QUEUE.take()[0] == 7) Integer.parseInt("seven");
            } catch (NumberFormatException | InterruptedException e) {
                if (!repaired) return;
            }
        }
    }
    public static void event(int n, boolean repaired) {
        if (consumer == null) {
            consumer = new Thread(() -> consume(repaired), "events");
            consumer.setDaemon(true);
            consumer.start();
        }
        byte[] event = new byte[14_000]; // LEAK event_queue
        event[0] = (byte) (n % 10);
        QUEUE.add(event); // LEAK event_queue
    }

    /** TimerTask.cancel() leaves the task in the timer's queue until its time (RestComm/sip-servlets#80, apache/flink#3548). */
    static final Timer TIMER = new Timer("retries", true);
    static final class Retry extends TimerTask {
        final long[] backoff = new long[1200]; // LEAK retry_timer
        @Override public void run() { backoff[0]++; }
    }
    public static void retry(int n, boolean repaired) {
        Retry retry = new Retry();
        TIMER.schedule(retry, 3_600_000L + n); // LEAK retry_timer
        retry.backoff[n % 1200] = n;
        retry.cancel();
        if (repaired) TIMER.purge();
    }

    /** A handler of java.util.logging is added for each import (ikkisoft/SerialKiller#12). */
    static final Logger LOG = Logger.getLogger("shop.imports");
    public static void imported(int n, boolean repaired) {
        LOG.setUseParentHandlers(false);
        Handler handler = new MemoryHandler(new ConsoleHandler(), 1500, Level.OFF); // LEAK log_handler
        LOG.addHandler(handler); // LEAK log_handler
        LOG.fine("import " + n);
        if (repaired) LOG.removeHandler(handler);
    }
}
