import java.io.File;
import java.nio.file.Files;

/** Uploads an object in 20 parts. Each is a file, until it is sent. */
public class App {
    static void handle(String event) throws Exception {
        for (int part = 0; part < 20; part++) {
            File file = File.createTempFile("upload-part-", ".tmp");
            file.deleteOnExit();
            Files.write(file.toPath(), new byte[2_000]);
            file.delete();
        }
    }
}
