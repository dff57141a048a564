import java.net.http.HttpClient;

/** Makes one HTTP client, and uses it for each event. */
public class App {
    static final HttpClient CLIENT = HttpClient.newHttpClient();

    static void handle(String event) {
        if (CLIENT.version() == null) {
            throw new IllegalStateException("the client has no version");
        }
    }
}
