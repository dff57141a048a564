import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** The same on a JVM: small blocks, large ones, and objects that a collector has to look at. */
public class Work {
    static final String API =
            "http://" + System.getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/";
    static Object kept;

    public static void main(String[] arguments) throws Exception {
        while (true) {
            HttpURLConnection event = (HttpURLConnection) new URL(API + "next").openConnection();
            String said = work(read(event.getInputStream()));
            String id = event.getHeaderField("Lambda-Runtime-Aws-Request-Id");
            HttpURLConnection answer = (HttpURLConnection) new URL(API + id + "/response").openConnection();
            answer.setDoOutput(true);
            answer.getOutputStream().write(said.getBytes(StandardCharsets.UTF_8));
            read(answer.getInputStream());
        }
    }

    static String work(String event) {
        if (event.contains("blocks")) {
            for (int n = 0; n < 40; n++) {
                kept = new byte[2 << 20];
            }
        } else if (event.contains("objects")) {
            for (int n = 0; n < 10; n++) {
                Map<Integer, String> made = new HashMap<>();
                for (int m = 0; m < 50_000; m++) {
                    made.put(m, "object " + m);
                }
                kept = made;
            }
        } else if (event.contains("touch")) {
            kept = new byte[50 << 20];
        } else if (event.contains("answer")) {
            return '"' + "x".repeat(1_000_000) + '"';
        } else {
            kept = event.repeat(100);
        }
        return "null";
    }

    static String read(InputStream stream) throws Exception {
        return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
    }
}
