/** Calls a service that times out for one event in ten. The client throws its exception of a constant. */
public class App {
    static final class ReadTimeout extends RuntimeException {
        static final ReadTimeout INSTANCE = new ReadTimeout();

        ReadTimeout() {
            super("read timeout");
        }
    }

    static int calls;

    static String read(String request) {
        if (++calls % 10 == 0) {
            throw ReadTimeout.INSTANCE;
        }
        return request;
    }

    static void handle(String event) {
        String request = event.repeat(15_000) + calls;
        try {
            read(request);
        } catch (ReadTimeout timeout) {
            timeout.addSuppressed(new IllegalStateException("block() was ended by an error for " + request));
        }
    }
}
