import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.lang.reflect.Proxy;
import java.net.HttpURLConnection;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A function on a runtime of its own, in the trouble that its events describe. */
public class Trouble {
    static final String API =
            "http://" + System.getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/";
    static final List<Object> KEPT = new ArrayList<>();
    static final Map<Integer, byte[]> CACHE = new LinkedHashMap<>();
    static int number = 0;
    static Random random = new Random(1);

    public static void main(String[] arguments) throws Exception {
        while (true) {
            HttpURLConnection event = open("next");
            String body = read(event.getInputStream());
            String id = event.getHeaderField("Lambda-Runtime-Aws-Request-Id");
            handle(body);
            HttpURLConnection answer = open(id + "/response");
            answer.setDoOutput(true);
            answer.getOutputStream().write("{\"answer\": null}".getBytes(StandardCharsets.UTF_8));
            read(answer.getInputStream());
        }
    }

    static void handle(String event) throws Exception {
        // What each invocation needs while it runs: a third more or less.
        List<byte[]> work = new ArrayList<>();
        int block = number(event, "block", 1000);
        long needed = (long) (number(event, "workKiB", 0) * 1024L * (0.67 + random.nextDouble() * 0.66));
        for (long made = 0; made < needed; made += block) {
            work.add(new byte[block]);
        }
        for (int left = number(event, "leakBytes", 0); left > 0; left -= block) {
            KEPT.add(new byte[Math.min(block, left)]);
        }
        int direct = number(event, "directBytes", 0);
        if (direct > 0) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(direct);
            while (buffer.hasRemaining()) {
                buffer.put((byte) 1);
            }
            KEPT.add(buffer);
        }
        for (int left = number(event, "classes", 0); left > 0; left--) {
            ClassLoader loader = new URLClassLoader(new URL[0]);
            KEPT.add(Proxy.newProxyInstance(loader, new Class<?>[] {Runnable.class}, (p, m, a) -> null));
        }
        int keys = number(event, "keys", 0);
        for (int left = number(event, "lookUps", 0); left > 0; left--) {
            CACHE.computeIfAbsent(random.nextInt(keys), key -> new byte[block]);
        }
        Thread.sleep(number(event, "pauseMs", 10));
        number += work.size(); // it is needed until here
    }

    static HttpURLConnection open(String path) throws Exception {
        return (HttpURLConnection) new URL(API + path).openConnection();
    }

    static String read(InputStream stream) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        stream.transferTo(bytes);
        return bytes.toString(StandardCharsets.UTF_8);
    }

    static int number(String json, String name, int otherwise) {
        Matcher found = Pattern.compile("\"" + name + "\": *(\\d+)").matcher(json);
        return found.find() ? Integer.parseInt(found.group(1)) : otherwise;
    }
}
