import java.io.OutputStream;
import java.net.JarURLConnection;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

/** Writes an archive for each event, looks whether an entry is in it, and deletes it. */
public class App {
    static boolean exists(URL entry) throws Exception {
        JarURLConnection connection = (JarURLConnection) entry.openConnection();
        connection.setUseCaches(false);
        try (var archive = connection.getJarFile()) {
            return connection.getContentLengthLong() > 0;
        }
    }

    static void handle(String event) throws Exception {
        Path archive = Files.createTempFile("archive", ".zip");
        try (OutputStream file = Files.newOutputStream(archive); ZipOutputStream zip = new ZipOutputStream(file)) {
            for (int part = 0; part < 40; part++) {
                zip.putNextEntry(new ZipEntry("part/" + part + ".json"));
                zip.write(event.getBytes());
            }
        }
        if (!exists(new URL("jar:" + archive.toUri() + "!/part/7.json"))) {
            throw new IllegalStateException();
        }
        Files.delete(archive);
    }
}
