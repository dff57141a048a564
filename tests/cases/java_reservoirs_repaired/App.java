import java.util.Random;

/** Tells 40 histograms how long the 4 queries of each event took. */
public class App {
    /** Of all values a sample of 1028, in which each is as likely. */
    static class Reservoir {
        final long[] sample = new long[1028];
        final Random random = new Random(7);
        int seen;

        void update(long value) {
            int place = seen < sample.length ? seen : random.nextInt(seen + 1);
            if (place < sample.length) sample[place] = value;
            seen++;
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
