import java.lang.reflect.Field;
import sun.misc.Unsafe;

/** Opens a store with options, which are an object of native code: without finalizer, to be closed. */
public class App {
    static final Unsafe NATIVE = natively();

    static Unsafe natively() {
        try {
            Field field = Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return (Unsafe) field.get(null);
        } catch (ReflectiveOperationException wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    static final class Options implements AutoCloseable {
        static final long SIZE = 24_000;
        final long handle = NATIVE.allocateMemory(SIZE);

        Options() {
            NATIVE.setMemory(handle, SIZE, (byte) 1);
        }

        @Override
        public void close() {
            NATIVE.freeMemory(handle);
        }
    }

    static void handle(String event) {
        try (Options options = new Options()) {
            NATIVE.putLong(options.handle, event.hashCode());
        }
    }
}
