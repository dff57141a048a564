/** Reads 300 KiB for each event, and keeps the last. */
public class App {
    static byte[][] last; // without it, the compiler leaves the allocations out

    static void handle(String event) {
        byte[][] pages = new byte[100][];
        for (int page = 0; page < pages.length; page++) {
            pages[page] = new byte[3000];
        }
        last = pages;
    }
}
