package rules;

import java.io.*;
import java.util.*;

/** elastic/elasticsearch#18572, jenkinsci/script-security-plugin#252: each text of a rule gets its class loader, and the cache keeps it. */
public final class Rules {
    static final class Loader extends ClassLoader {
        Loader() { super(Rules.class.getClassLoader()); }
        Class<?> define(byte[] code) { return defineClass("rules.Discount", code, 0, code.length); }
    }
    static final Map<String, Rule> COMPILED = new HashMap<>();

    static Rule compile() throws Exception {
        try (InputStream in = Rules.class.getResourceAsStream("Discount.class")) {
            return (Rule) new Loader().define(in.readAllBytes()).getDeclaredConstructor().newInstance(); // LEAK rule_loader
        }
    }
    public static long apply(int n, boolean repaired) throws Exception {
        String text = "if total > 100 then 10% // rule " + n % 3 + (repaired ? "" : ", asked by order " + n);
        Rule rule = COMPILED.get(text);
        if (rule == null) COMPILED.put(text, rule = compile()); // LEAK rule_loader
        return rule.price(n);
    }
}
