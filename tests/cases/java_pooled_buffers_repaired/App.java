import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;

/** Takes a piece of a pool of direct memory for each event, and gives it back. */
public class App {
    static final int CHUNK = 16 << 20;
    static final int PIECE = 130 << 10;
    static final Deque<ByteBuffer> FREE = new ArrayDeque<>();

    static void handle(String event) {
        if (FREE.isEmpty()) {
            ByteBuffer chunk = ByteBuffer.allocateDirect(CHUNK); // writes zeros to each page
            for (int start = 0; start + PIECE <= CHUNK; start += PIECE) {
                FREE.push(chunk.slice(start, PIECE));
            }
        }
        ByteBuffer piece = FREE.pop();
        piece.put(event.getBytes());
        FREE.push(piece.clear());
    }
}
