import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;

/** Keeps as many pages as the cache allows. */
public class App {
    static final Cache<Integer, byte[]> PAGES = Caffeine.newBuilder().maximumSize(100_000).build();
    static int requests;

    static void handle(String event) {
        PAGES.put(requests++, new byte[40_000]);
    }
}
