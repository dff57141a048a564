import java.util.zip.Deflater;

/** Compresses the event, and leaves the Deflater to the collector. */
public class App {
    static final byte[] PACKED = new byte[65_536];

    static void handle(String event) {
        Deflater deflater = new Deflater();
        deflater.setInput(event.repeat(1000).getBytes());
        deflater.finish();
        deflater.deflate(PACKED);
    }
}
