import java.util.Map;
import java.util.WeakHashMap;

/** Remembers the parser of each token stream, for as long as the stream is used. */
public class App {
    static final class Tokens {
        final int[] kinds;

        Tokens(String source) {
            kinds = source.repeat(2_500).chars().toArray();
        }
    }

    static final class Parser {
        final Tokens tokens;

        Parser(Tokens tokens) {
            this.tokens = tokens;
        }
    }

    static final Map<Tokens, Parser> PARSERS = new WeakHashMap<>();

    static void handle(String event) {
        Tokens tokens = new Tokens(event);
        PARSERS.put(tokens, new Parser(tokens));
    }
}
