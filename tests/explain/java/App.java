/** What the runtime calls. */
public class App {
    static void handle(String event) throws Exception {
        com.acme.Planted.handle(event);
    }
}
