import java.util.ArrayList;
import java.util.List;

/** Does something to the heap, says so, and waits for a line until it does the next. See hsperf_golden.py. */
public class Moments {
    static final List<byte[]> KEPT = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        said("began");
        for (int i = 0; i < 20_000; i++) {
            KEPT.add(new byte[1000]);
        }
        said("kept 20 MB");
        for (int i = 0; i < 300_000; i++) {
            byte[] garbage = new byte[1000];
        }
        said("made 300 MB of garbage");
        KEPT.subList(10_000, 20_000).clear();
        System.gc();
        said("cleared half, and collected");
    }

    static void said(String what) throws Exception {
        System.out.println(what);
        System.in.read();
    }
}
