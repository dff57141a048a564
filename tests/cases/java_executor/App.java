import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Does its work in two threads of an executor of its own. */
public class App {
    static void handle(String event) throws Exception {
        ExecutorService executor = Executors.newFixedThreadPool(2);
        executor.submit(() -> event.length()).get();
        executor.submit(() -> event.length()).get();
    }
}
