import java.lang.reflect.Proxy;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.List;

/** Wraps its service in a proxy at the first event, registers it, and uses it for each event. */
public class App {
    static final List<Object> REGISTERED = new ArrayList<>();

    static void handle(String event) {
        if (REGISTERED.isEmpty()) {
            ClassLoader loader = new URLClassLoader(new URL[0]);
            Class<?>[] service = {Runnable.class, Comparable.class};
            REGISTERED.add(Proxy.newProxyInstance(loader, service, (proxy, method, arguments) -> null));
        }
        ((Runnable) REGISTERED.get(0)).run();
    }
}
