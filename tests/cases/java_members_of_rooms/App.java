import com.google.common.cache.CacheBuilder;
import com.google.common.cache.CacheLoader;
import com.google.common.cache.LoadingCache;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Keeps who is in a room, of the last 600 rooms, for five minutes. */
public class App {
    static final LoadingCache<Long, List<Long>> MEMBERS = CacheBuilder.newBuilder()
            .expireAfterWrite(5, TimeUnit.MINUTES)
            .maximumSize(600)
            .build(new CacheLoader<>() {
                @Override
                public List<Long> load(Long room) {
                    List<Long> members = new ArrayList<>(1_000);
                    for (long member = 0; member < 1_000; member++) {
                        members.add(room * 1_000 + member);
                    }
                    return members;
                }
            });
    static long rooms;

    static void handle(String event) {
        MEMBERS.getUnchecked(rooms++);
    }
}
