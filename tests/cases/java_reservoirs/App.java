import java.util.Random;
import java.util.TreeMap;

/** Tells 40 histograms how long the 4 queries of each event took. */
public class App {
    /** Of all values a sample of 1028, in which newer ones are more likely. */
    static class Reservoir {
        final TreeMap<Double, Long> sample = new TreeMap<>();
        final Random random = new Random(7);
        long seen;

        void update(long value) {
            sample.put(Math.exp(0.0001 * seen++) / (1 - random.nextDouble()), value);
            if (sample.size() > 1028) sample.pollFirstEntry();
        }
    }

    static final Reservoir[] USAGE = new Reservoir[40];

    static {
        for (int pool = 0; pool < USAGE.length; pool++) USAGE[pool] = new Reservoir();
    }

    static void handle(String event) {
        for (Reservoir usage : USAGE) {
            for (int query = 0; query < 4; query++) usage.update(System.nanoTime());
        }
    }
}
