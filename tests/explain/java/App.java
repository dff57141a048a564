import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/** What the runtime calls. */
public class App {
    public static void handle(InputStream event) throws Exception {
        com.acme.Planted.handle(new String(event.readAllBytes(), StandardCharsets.UTF_8));
    }
}
