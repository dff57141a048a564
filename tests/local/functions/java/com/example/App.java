package com.example;

import com.amazonaws.services.lambda.runtime.Context;
import com.amazonaws.services.lambda.runtime.events.QueueEvent;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Handlers of each shape that Lambda takes, and one that keeps memory. */
public class App extends Base<App.Order, App.Answer> {
    private static final List<byte[]> SEEN = new ArrayList<>();

    public enum Kind { GIFT, USUAL }

    public record Point(int x, double y) { }

    public static class Item {
        public String name;
        public int count;
    }

    public static class Order {
        private String id;
        private List<Item> items;
        private Map<String, Kind> kinds;
        private LocalDate due;

        public void setId(String id) { this.id = id; }
        public void setItems(List<Item> items) { this.items = items; }
        public void setKinds(Map<String, Kind> kinds) { this.kinds = kinds; }
        public void setDue(LocalDate due) { this.due = due; }
    }

    public static class Answer {
        private final Order order;

        Answer(Order order) { this.order = order; }

        public String getId() { return order.id; }
        public String getFirst() { return order.items.get(0).name; }
        public Kind getKind() { return order.kinds.get("a"); }
        public int getDay() { return order.due.getDayOfMonth(); }
        public boolean isPaid() { return true; }
        public String getNothing() { return null; }
        public List<Item> getItems() { return order.items; }
    }

    @Override
    Answer of(Order order) {
        return new Answer(order);
    }

    public Map<String, Object> map(Map<String, Object> event) {
        return event;
    }

    public int sum(List<Integer> event) {
        return event.stream().mapToInt(Integer::intValue).sum();
    }

    public String text(String event, Context context) {
        context.getLogger().log("text " + event);
        return event + " \u00fc \"quoted\"";
    }

    public Point record(Point event) {
        return new Point(event.x() + 1, event.y());
    }

    public String queue(QueueEvent event) {
        return event.getRecords().toString();
    }

    public static void nothing() {
    }

    public Map<String, Object> context(Context context) {
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("name", context.getFunctionName());
        said.put("memory", context.getMemoryLimitInMB());
        said.put("id", context.getAwsRequestId().length());
        said.put("left", context.getRemainingTimeInMillis() > 1000);
        said.put("environment", System.getenv("AWS_EXECUTION_ENV"));
        said.put("heap", Runtime.getRuntime().maxMemory() >> 20);
        return said;
    }

    public static Object fails(Map<String, Object> event) {
        throw new IllegalStateException("boom");
    }

    public static void keeps(Map<String, Object> event) {
        SEEN.add(new byte[8000]); // kept
    }
}
