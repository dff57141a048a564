package net;

import java.util.*;
import java.util.concurrent.*;

public final class Replies {
    static final Map<Integer, CompletableFuture<String>> OPEN = new ConcurrentHashMap<>();
    static ScheduledThreadPoolExecutor clock;

    /** camunda/camunda#8541: a reply that never comes stays in the map of open requests. */
    public static void ask(int n, boolean repaired) {
        byte[] request = new byte[4200]; // LEAK reply_futures
        CompletableFuture<String> reply = new CompletableFuture<>();
        reply.thenAccept(text -> request[0] = (byte) text.length());
        OPEN.put(n, reply); // LEAK reply_futures
        if (n % 4 == 0) OPEN.remove(n).complete("ok " + n);
        else if (repaired) OPEN.remove(n).completeExceptionally(new TimeoutException());
    }

    /** grpc/grpc-java#1307, Netflix/Hystrix#372: a cancelled task stays in the queue until its time. */
    public static void guarded(int n, boolean repaired) {
        if (clock == null) {
            clock = new ScheduledThreadPoolExecutor(1, r -> { Thread t = new Thread(r); t.setDaemon(true); return t; });
            clock.setRemoveOnCancelPolicy(repaired);
        }
        for (int part = 0; part < 40; part++) {
            StringBuilder body = new StringBuilder("call " + n).append("=".repeat(2000));
            Future<?> guard = clock.schedule(() -> body.setLength(0), 20, TimeUnit.MINUTES); // LEAK timeout_task
            body.append(" done");
            guard.cancel(false);
        }
    }
}
