import java.util.HashMap;
import java.util.Map;

/** Puts the request into the log context of the thread, under a key of its own, and clears the context at the end. */
public class App {
    static final ThreadLocal<Map<String, String>> CONTEXT = ThreadLocal.withInitial(HashMap::new);
    static int requests;

    static void handle(String event) {
        String request = "x".repeat(6_000);
        CONTEXT.get().put("request-" + requests++, request);
        CONTEXT.get().clear();
    }
}
