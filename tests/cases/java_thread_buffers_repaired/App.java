import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Reads a value of a file in a thread of a pool, into a buffer of the heap. Values have up to 1 MiB. */
public class App {
    static final ExecutorService POOL = Executors.newFixedThreadPool(32);
    static final Random SIZES = new Random(5);
    static final Path STORE = store();

    static Path store() {
        try {
            return Files.write(Files.createTempFile("store", ""), new byte[1 << 20]);
        } catch (java.io.IOException wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    static void handle(String event) throws Exception {
        int size = Math.min(1 << 20, (int) (60_000 * Math.exp(Math.abs(SIZES.nextGaussian()) * 1.2)));
        POOL.submit(() -> {
            try (FileChannel channel = FileChannel.open(STORE, StandardOpenOption.READ)) {
                return channel.read(ByteBuffer.allocate(size));
            }
        }).get();
    }
}
