package net;

import java.io.*;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.zip.*;

public final class Codecs {
    static final Deque<Inflater> FREE = new ArrayDeque<>();
    static final ThreadLocal<Map<Integer, Deque<ByteBuffer>>> BUFFERS = ThreadLocal.withInitial(HashMap::new);

    static Inflater take() {
        return new Inflater(); // LEAK codec_pool
    }
    /** GeyserMC/PacketLib#36, javaee/grizzly#1863: given back to a pool that gives none out, and never ended. */
    static void giveBack(Inflater inflater, boolean repaired) {
        if (repaired) inflater.end();
        else FREE.push(inflater); // LEAK codec_pool
    }
    public static int receive(byte[] zipped, boolean repaired) throws DataFormatException {
        Inflater inflater = take();
        inflater.setInput(zipped);
        byte[] out = new byte[2048];
        int sum = 0;
        while (!inflater.finished()) sum += inflater.inflate(out);
        giveBack(inflater, repaired);
        return sum;
    }

    /** lmdbjava/lmdbjava#284: direct buffers of a thread local pool without bound. */
    static ByteBuffer buffer(int size) {
        ByteBuffer known = BUFFERS.get().computeIfAbsent(size, k -> new ArrayDeque<>()).poll();
        return known != null ? known : ByteBuffer.allocateDirect(size); // LEAK image_buffer
    }
    public static int image(int n, boolean repaired) {
        int size = 20_000 + n * 8;
        ByteBuffer image = buffer(repaired ? Integer.highestOneBit(size) * 2 : size);
        for (int i = 0; i < 20_000; i += 8) image.putLong(i, n);
        BUFFERS.get().get(image.capacity()).add(image); // LEAK image_buffer
        return image.capacity();
    }

    /** netty/netty#10351, eclipse-ee4j/jersey#3259: deleteOnExit() keeps the path of each file. */
    public static void upload(int n, boolean repaired) throws IOException {
        File folder = new File(System.getProperty("java.io.tmpdir"));
        for (int part = 0; part < 12; part++) {
            File file = new File(folder, "upload-" + n + "-" + part + "-" + "multipart".repeat(15) + ".tmp");
            if (part == 0) try (Writer w = new FileWriter(file)) { w.write("part"); }
            if (!repaired) file.deleteOnExit(); // LEAK upload_tmp
            file.delete();
        }
    }
}
