import java.util.HashMap;
import java.util.Map;

/** Parses the settings of each event into a map, counts them, and drops the map. */
public class App {
    static final String SETTINGS = settings();

    static String settings() {
        StringBuilder text = new StringBuilder();
        for (int entry = 0; entry < 200; entry++) {
            text.append("name").append(entry).append("=value").append(entry).append(';');
        }
        return text.toString();
    }

    static void handle(String event) {
        Map<String, String> parsed = new HashMap<>();
        for (String entry : SETTINGS.split(";")) {
            String[] pair = entry.split("=");
            parsed.put(pair[0], pair[1]);
        }
        if (parsed.size() != 200) {
            throw new IllegalStateException("an entry is missing");
        }
    }
}
