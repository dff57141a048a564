/** Reads records whose field names are identifiers, and interns each name as a JSON parser does. */
public class App {
    static long events;

    static void handle(String event) {
        long number = events++;
        for (int field = 0; field < 300; field++) {
            String name = ("customer-" + number + "-order-" + field).intern();
            if (name.isEmpty()) {
                throw new IllegalStateException(event);
            }
        }
    }
}
