import java.util.HashMap;
import java.util.Map;

/** Registers a logger with its buffer for each invocation. */
public class App {
    static final Map<Integer, byte[]> LOGGERS = new HashMap<>();

    static void handle(String event) {
        LOGGERS.put(LOGGERS.size(), new byte[40_000]);
    }
}
