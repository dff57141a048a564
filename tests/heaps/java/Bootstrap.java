import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.lang.reflect.Proxy;
import java.net.HttpURLConnection;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A function on a runtime of its own: asks the Runtime API for events, and does to its memory what they say. */
public class Bootstrap {
    static final String API =
            "http://" + System.getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/";
    static final int BLOCK = 1000;
    static final List<Object> KEPT = new ArrayList<>();
    public static void main(String[] arguments) throws Exception {
        while (true) {
            HttpURLConnection event = open("next");
            String body = read(event.getInputStream());
            String id = event.getHeaderField("Lambda-Runtime-Aws-Request-Id");
            does(member(body, "\"do\": *\"(\\w+)\"", ""), Integer.parseInt(member(body, "\"count\": *(\\d+)", "0")));
            HttpURLConnection answer = open(id + "/response");
            answer.setDoOutput(true);
            answer.getOutputStream().write("{\"answer\": null}".getBytes(StandardCharsets.UTF_8));
            read(answer.getInputStream());
        }
    }

    static void does(String what, int count) throws Exception {
        switch (what) {
            case "leak" -> {
                for (int i = 0; i < count; i++) {
                    KEPT.add(new byte[BLOCK]);
                }
            }
            case "garbage" -> {
                for (int i = 0; i < count; i++) {
                    byte[] garbage = new byte[BLOCK];
                }
            }
            case "buffer" -> {
                ByteBuffer buffer = ByteBuffer.allocateDirect(count * BLOCK);
                while (buffer.hasRemaining()) {
                    buffer.put((byte) 1);
                }
                KEPT.add(buffer);
            }
            case "classes" -> {
                for (int i = 0; i < count; i++) {
                    ClassLoader loader = new URLClassLoader(new URL[0]);
                    KEPT.add(Proxy.newProxyInstance(loader, new Class<?>[] {Runnable.class}, (p, m, a) -> null));
                }
            }
            case "collect" -> System.gc();
            default -> { }
        }
        Thread.sleep(60); // HotSpot before 25 looks at what is used every 50 ms
    }

    static HttpURLConnection open(String path) throws Exception {
        return (HttpURLConnection) new URL(API + path).openConnection();
    }

    static String read(InputStream stream) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        stream.transferTo(bytes);
        return bytes.toString(StandardCharsets.UTF_8);
    }

    static String member(String json, String pattern, String otherwise) {
        Matcher found = Pattern.compile(pattern).matcher(json);
        return found.find() ? found.group(1) : otherwise;
    }
}
