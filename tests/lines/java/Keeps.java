import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A function on a runtime of its own, with a cache that is full, that keeps orders if the event says so. */
public class Keeps {
    static final String API =
            "http://" + System.getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/";
    static final int ORDERS = 40;
    static final List<Order> KEPT = new ArrayList<>();
    static final Map<Integer, Cached> CACHE = new LinkedHashMap<>();
    static int next;

    static class Order {
        final byte[] payload = new byte[1000];
    }

    static class Cached {
        final byte[] payload = new byte[2000];
    }

    /** Uses up the heap, for a moment. */
    static void fill() {
        List<byte[]> filled = new ArrayList<>();
        try {
            while (true) {
                filled.add(new byte[100_000]);
            }
        } catch (OutOfMemoryError full) {
            filled.clear();
        }
    }

    public static void main(String[] arguments) throws Exception {
        while (true) {
            HttpURLConnection event = (HttpURLConnection) new URL(API + "next").openConnection();
            String body = new String(event.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            for (int i = 0; i < ORDERS; i++) {
                CACHE.put(next, new Cached());
                CACHE.remove(next - 500);
                next++;
                if (body.contains("keep")) {
                    KEPT.add(new Order());
                }
            }
            if (body.contains("fill")) {
                fill();
            }
            if (body.contains("collect")) {
                System.gc();
            }
            String id = event.getHeaderField("Lambda-Runtime-Aws-Request-Id");
            HttpURLConnection answer = (HttpURLConnection) new URL(API + id + "/response").openConnection();
            answer.setDoOutput(true);
            answer.getOutputStream().write("{\"answer\": null}".getBytes(StandardCharsets.UTF_8));
            answer.getInputStream().readAllBytes();
        }
    }
}
