package shop;

import java.util.*;
import java.util.concurrent.*;

public final class Prices {
    /** cdapio/cdap#14402: a key of a cache without hashCode. */
    static class Key {
        final String sku, currency;
        Key(String sku, String currency) { this.sku = sku; this.currency = currency; }
        @Override public boolean equals(Object o) { return o instanceof Key && ((Key) o).sku.equals(sku) && ((Key) o).currency.equals(currency); }
    }
    static final class HashedKey extends Key {
        HashedKey(String sku, String currency) { super(sku, currency); }
        @Override public int hashCode() { return Objects.hash(sku, currency); }
    }
    static final Map<Key, double[]> CURVES = new ConcurrentHashMap<>();
    static final ConcurrentMap<String, String> LABELS = new ConcurrentHashMap<>();
    final boolean repaired;

    public Prices(boolean repaired) { this.repaired = repaired; }

    static double[] curve(String sku) {
        double[] points = new double[1500]; // LEAK price_key
        for (int i = 0; i < points.length; i++) points[i] = sku.hashCode() / (i + 1.0);
        return points;
    }
    public double price(int n) {
        String sku = "sku-" + n % 8;
        Key key = repaired ? new HashedKey(sku, "EUR") : new Key(sku, "EUR");
        return CURVES.computeIfAbsent(key, k -> curve(k.sku))[n % 1500]; // LEAK price_key
    }

    // a table like String.intern(), for labels that never come again (ShiftLeftSecurity/overflowdb#347)
    String canonical(String label) {
        if (repaired && LABELS.size() > 100) LABELS.clear();
        String known = LABELS.putIfAbsent(label, label); // LEAK label_table
        return known == null ? label : known;
    }
    public int labels(int n) {
        Set<String> all = new HashSet<>();
        for (int i = 0; i < 20; i++) all.add(canonical("request-" + n + "-" + Integer.toHexString(i * 7919) + "-" + "tag".repeat(15))); // LEAK label_table
        for (int i = 0; i < 20; i++) all.add(canonical("country-" + i));
        return all.size();
    }
}
