import java.net.http.HttpClient;

/** Makes an HTTP client for each event, and leaves it to the collector. */
public class App {
    static void handle(String event) {
        HttpClient client = HttpClient.newHttpClient();
        if (client.version() == null) {
            throw new IllegalStateException("the client has no version");
        }
    }
}
