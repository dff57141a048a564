import java.util.HashMap;
import java.util.Map;

/** Registers a logger with its buffer for each invocation, and removes it at the end. */
public class App {
    static final Map<Integer, byte[]> LOGGERS = new HashMap<>();

    static void handle(String event) {
        int logger = LOGGERS.size();
        LOGGERS.put(logger, new byte[40_000]);
        LOGGERS.remove(logger);
    }
}
