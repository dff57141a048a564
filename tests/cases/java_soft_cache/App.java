import java.lang.ref.ReferenceQueue;
import java.lang.ref.SoftReference;
import java.util.HashMap;
import java.util.Map;

/** Keeps what it has read for each order, softly. No order comes twice. */
public class App {
    static final class Entry extends SoftReference<byte[]> {
        final int order;

        Entry(int order, byte[] read) {
            super(read, CLEARED);
            this.order = order;
        }
    }

    static final ReferenceQueue<byte[]> CLEARED = new ReferenceQueue<>();
    static final Map<Integer, Entry> CACHE = new HashMap<>();
    static int orders;

    static void handle(String event) {
        for (Entry gone; (gone = (Entry) CLEARED.poll()) != null; ) {
            CACHE.remove(gone.order);
        }
        int order = orders++;
        CACHE.put(order, new Entry(order, new byte[60_000]));
    }
}
