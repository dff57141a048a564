/** What Bootstrap calls. */
class App {
    static void handle(String event) throws Exception {
        com.acme.RunsOut.handle(event);
    }
}
