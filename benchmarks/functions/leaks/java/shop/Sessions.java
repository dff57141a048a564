package shop;

import java.nio.ByteBuffer;
import java.util.*;
import java.util.function.Consumer;

public final class Sessions {
    static final List<Consumer<String>> BUS = new ArrayList<>();
    static final Map<Owner, Dialog> DIALOGS = new WeakHashMap<>();
    static final ByteBuffer[] TITLES = new ByteBuffer[4096];
    final boolean repaired;

    public Sessions(boolean repaired) { this.repaired = repaired; }

    /** sialcasa/mvvmFX#38: the listener is never removed, and an inner class holds its session. */
    static final class Session {
        final char[] cart = new char[9000]; // LEAK session_listener
        String last;
        final class OnPrice implements Consumer<String> {
            @Override public void accept(String price) { last = price; }
        }
        final OnPrice listener = new OnPrice();
    }
    public void visit(int n) {
        Session session = new Session();
        BUS.add(session.listener); // LEAK session_listener
        session.cart[n % 9000] = 'x';
        for (Consumer<String> c : BUS) c.accept("price " + n % 5);
        if (repaired) BUS.remove(session.listener);
    }

    /** evant/android-shard#33: the value of a WeakHashMap refers to its key. */
    static final class Owner { int visits; }
    static final class Dialog {
        final Owner owner;
        final byte[] draft = new byte[16_000]; // LEAK weak_owner
        Dialog(Owner owner) { this.owner = owner; }
    }
    public int dialog(int n) {
        Owner owner = new Owner();
        DIALOGS.put(owner, new Dialog(repaired ? null : owner)); // LEAK weak_owner
        return owner.visits++ + DIALOGS.size();
    }

    /** A title of 24 bytes that keeps its whole page (a slice; the old String.substring, JDK-4513622). */
    public int page(int n) {
        ByteBuffer page = ByteBuffer.allocate(45_000); // LEAK page_view
        while (page.remaining() > 8) page.putLong(n);
        ByteBuffer title = page.slice(0, 24);
        if (repaired) title = ByteBuffer.allocate(24).put(title);
        TITLES[n % TITLES.length] = title; // LEAK page_view
        return title.capacity();
    }
}
