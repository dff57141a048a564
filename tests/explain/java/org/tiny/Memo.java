package org.tiny;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/** A library: it remembers what it was once asked for. */
public class Memo {
    private static final Map<String, Object> ANSWERS = new ConcurrentHashMap<>();

    public static Object remember(String key, Supplier<Object> answer) {
        return ANSWERS.computeIfAbsent(key, each -> answer.get());
    }

    public static void forget(String key) {
        ANSWERS.remove(key);
    }
}
