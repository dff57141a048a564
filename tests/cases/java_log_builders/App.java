import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Logs each request in one of 4 threads. One request in 25 is a bulk, of 1.5 million characters. */
public class App {
    static final ExecutorService POOL = Executors.newFixedThreadPool(4);
    static final ThreadLocal<StringBuilder> BUILDER = ThreadLocal.withInitial(StringBuilder::new);
    static int requests, logged;

    static int formatted(String request) {
        StringBuilder builder = BUILDER.get();
        builder.setLength(0);
        builder.append("request: ");
        for (int part = 0; part < request.length(); part += 1000) {
            builder.append(request, part, Math.min(part + 1000, request.length()));
        }
        return builder.toString().hashCode();
    }

    static void handle(String event) throws Exception {
        String request = "x".repeat(++requests % 25 == 0 ? 1_500_000 : 300);
        logged += POOL.submit(() -> formatted(request)).get();
    }
}
