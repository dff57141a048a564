import java.io.IOException;
import java.io.ObjectOutputStream;
import java.io.OutputStream;
import java.util.LinkedHashMap;
import java.util.Map;

/** Writes 60 rows of each event to a journal that stays open, as serialized maps. */
public class App {
    static final ObjectOutputStream JOURNAL = journal();
    static long rows;

    static ObjectOutputStream journal() {
        try {
            return new ObjectOutputStream(OutputStream.nullOutputStream());
        } catch (IOException wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    static void handle(String event) throws IOException {
        for (int row = 0; row < 60; row++) {
            Map<String, Object> written = new LinkedHashMap<>();
            written.put("position", ++rows);
            written.put("table", "orders");
            written.put("text", "row " + rows + " " + "x".repeat(400));
            JOURNAL.writeObject(written);
        }
        JOURNAL.flush();
    }
}
