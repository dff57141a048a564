import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/** Counts the saved states of a folder for each event. */
public class App {
    static final Path STATES = states();

    static Path states() {
        try {
            Path folder = Files.createTempDirectory("states");
            for (int round = 0; round < 30; round++) Files.createFile(folder.resolve("round-" + round + ".state"));
            return folder;
        } catch (IOException wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    static void handle(String event) throws IOException {
        try (Stream<Path> files = Files.list(STATES)) {
            long saved = files.filter(file -> file.toString().endsWith(".state")).count();
            if (saved != 30) throw new IllegalStateException("a state is missing");
        }
    }
}
