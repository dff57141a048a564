import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;

/** A runtime of its own: calls App.handle for each event of the Runtime API. */
public class Bootstrap {
    static final String API =
            "http://" + System.getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/";

    public static void main(String[] arguments) throws Exception {
        while (true) {
            HttpURLConnection event = (HttpURLConnection) new URL(API + "next").openConnection();
            String body = read(event.getInputStream());
            String id = event.getHeaderField("Lambda-Runtime-Aws-Request-Id");
            App.handle(body);
            HttpURLConnection answer = (HttpURLConnection) new URL(API + id + "/response").openConnection();
            answer.setDoOutput(true);
            answer.getOutputStream().write("{}".getBytes(StandardCharsets.UTF_8));
            read(answer.getInputStream());
        }
    }

    static String read(InputStream stream) throws Exception {
        try (stream) {
            return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
        }
    }
}
