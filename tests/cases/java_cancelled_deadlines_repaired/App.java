import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Makes 150 calls for each event. Each has a deadline, which is cancelled when its answer is there. */
public class App {
    static final ScheduledThreadPoolExecutor DEADLINES = new ScheduledThreadPoolExecutor(1);

    static {
        DEADLINES.setRemoveOnCancelPolicy(true);
    }

    static int call(String request, int number) {
        ScheduledFuture<?> deadline = DEADLINES.schedule(() -> System.err.println(request), 2, TimeUnit.HOURS);
        try {
            return request.hashCode() + number;
        } finally {
            deadline.cancel(false);
        }
    }

    static void handle(String event) {
        for (int number = 0; number < 150; number++) {
            call(event, number);
        }
    }
}
