import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;

/**
 * A function on a runtime of its own that keeps 40 KiB of each event that says so. Beside it, 100,000 objects stay.
 */
public class App {
    static final String API =
            "http://" + System.getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/";
    static final List<Order> KEPT = new ArrayList<>();
    static final List<int[]> STATE = new ArrayList<>();

    static class Order {
        final byte[] payload = new byte[40 * 1024];
    }

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < 100_000; i++) {
            STATE.add(new int[8]);
        }
        while (true) {
            HttpURLConnection event = (HttpURLConnection) new URL(API + "next").openConnection();
            String body = new String(event.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            int answer = works();
            if (body.contains("\"keep\": true")) {
                KEPT.add(new Order());
            }
            if (body.contains("\"collect\": true")) {
                System.gc();
            }
            String id = event.getHeaderField("Lambda-Runtime-Aws-Request-Id");
            HttpURLConnection sent = (HttpURLConnection) new URL(API + id + "/response").openConnection();
            sent.setDoOutput(true);
            sent.getOutputStream().write(Integer.toString(answer).getBytes(StandardCharsets.UTF_8));
            sent.getInputStream().readAllBytes();
        }
    }

    static int works() throws Exception {
        byte[] text = new byte[100_000];
        int found = 0;
        for (int i = 0; i < 5; i++) {
            text[i] = (byte) i;
            found += MessageDigest.getInstance("SHA-256").digest(text)[0];
        }
        return found;
    }
}
