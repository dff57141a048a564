import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** Evaluates three rules for each event: each is compiled to a class, once. */
public class App {
    /** The compiler of scripts: one loader for all, and a class name that is never used again. */
    static final class Scripts extends ClassLoader {
        int compiled;

        Runnable compile(String rule) {
            try (InputStream template = App.class.getResourceAsStream("Script_00000.class")) {
                String code = new String(template.readAllBytes(), StandardCharsets.ISO_8859_1);
                String name = String.format("Script_%05d", ++compiled);
                byte[] bytes = code.replace("Script_00000", name).getBytes(StandardCharsets.ISO_8859_1);
                var made = defineClass(name, bytes, 0, bytes.length).getDeclaredConstructor();
                made.setAccessible(true);
                return (Runnable) made.newInstance();
            } catch (Exception wrong) {
                throw new IllegalStateException(wrong);
            }
        }
    }

    static final Scripts SHELL = new Scripts();
    static final Map<String, Runnable> COMPILED = new HashMap<>();

    static void handle(String event) {
        for (String rule : new String[] {"total > 100", "country == 'SE'", "age < 18"}) {
            COMPILED.computeIfAbsent(rule, SHELL::compile).run();
        }
    }
}

class Script_00000 implements Runnable {
    Object binding;

    public void run() {
        binding = String.join("", "rule", "of", "event");
    }
}
