package truemem;

import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.GenericArrayType;
import java.lang.reflect.Member;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.lang.reflect.TypeVariable;
import java.lang.reflect.WildcardType;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Events as what a handler takes, and answers as text. Classes get and give their members as AWS's client has it, whose
 * own copy of Jackson knows no annotations of the user's: public setters, getters and fields; a record's components.
 */
final class Json {
    /** AWS's classes of events. Their names differ from those of events in case and hyphens. */
    private static final String EVENTS = "com.amazonaws.services.lambda.runtime.events.";

    private static final Map<Class<?>, Map<String, Member>> SETTERS = new ConcurrentHashMap<>();
    private static final Map<Class<?>, Map<String, Member>> GETTERS = new ConcurrentHashMap<>();

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Raises what its reading raises: IllegalArgumentException for what is no JSON, or does not fit the type. */
    static Object read(String text, Type type) throws Exception {
        Json json = new Json(text);
        Object value = json.value();
        if (json.next() != 0) {
            throw json.wrong();
        }
        return as(value, type);
    }

    // --- text to maps and lists --------------------------------------------------------------------------------

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("this is no JSON at character " + at);
    }

    /** The next character that is no blank, 0 at the end. */
    private char next() {
        while (at < text.length() && text.charAt(at) <= ' ') {
            at++;
        }
        return at < text.length() ? text.charAt(at) : 0;
    }

    private boolean takes(char wanted) {
        boolean is = next() == wanted;
        at += is ? 1 : 0;
        return is;
    }

    private void expect(char wanted) {
        if (!takes(wanted)) {
            throw wrong();
        }
    }

    private Object value() {
        if (takes('{')) {
            Map<String, Object> made = new LinkedHashMap<>();
            while (!takes('}')) {
                if (!made.isEmpty()) {
                    expect(',');
                }
                expect('"');
                String name = string();
                expect(':');
                made.put(name, value());
            }
            return made;
        }
        if (takes('[')) {
            List<Object> made = new ArrayList<>();
            while (!takes(']')) {
                if (!made.isEmpty()) {
                    expect(',');
                }
                made.add(value());
            }
            return made;
        }
        return takes('"') ? string() : word();
    }

    private String string() {
        StringBuilder made = new StringBuilder();
        while (at < text.length()) {
            char each = text.charAt(at++);
            if (each == '"') {
                return made.toString();
            }
            if (each == '\\' && at < text.length()) {
                each = text.charAt(at++);
                int known = "bfnrt".indexOf(each);
                if (each == 'u' && at + 4 <= text.length()) {
                    each = (char) Integer.parseInt(text.substring(at, at += 4), 16);
                } else if (known >= 0) {
                    each = "\b\f\n\r\t".charAt(known);
                }
            }
            made.append(each);
        }
        throw wrong();
    }

    private Object word() {
        int begin = at;
        while (at < text.length() && "+-._".indexOf(text.charAt(at)) + 1 + (isWord(text.charAt(at)) ? 1 : 0) > 0) {
            at++;
        }
        String word = text.substring(begin, at);
        switch (word) {
            case "null":
                return null;
            case "true":
            case "false":
                return word.equals("true");
            default:
        }
        try {
            if (word.matches("-?\\d+")) {
                BigInteger number = new BigInteger(word);
                return number.bitLength() < 32 ? (Object) number.intValue()
                        : number.bitLength() < 64 ? (Object) number.longValue() : number;
            }
            return Double.valueOf(word);
        } catch (NumberFormatException problem) {
            at = begin;
            throw wrong();
        }
    }

    private static boolean isWord(char each) {
        return Character.isLetterOrDigit(each);
    }

    // --- maps and lists to what the handler takes --------------------------------------------------------------

    private static Class<?> raw(Type type) {
        if (type instanceof Class) {
            return (Class<?>) type;
        }
        if (type instanceof ParameterizedType) {
            return (Class<?>) ((ParameterizedType) type).getRawType();
        }
        if (type instanceof GenericArrayType) {
            return Array.newInstance(raw(((GenericArrayType) type).getGenericComponentType()), 0).getClass();
        }
        return raw(type instanceof WildcardType ? ((WildcardType) type).getUpperBounds()[0]
                : ((TypeVariable<?>) type).getBounds()[0]);
    }

    private static Type part(Type type, int number) {
        Type[] given = type instanceof ParameterizedType ? ((ParameterizedType) type).getActualTypeArguments() : null;
        return given != null && number < given.length ? given[number] : Object.class;
    }

    static Object as(Object value, Type type) throws Exception {
        Class<?> to = raw(type);
        if (value == null) {
            return to.isPrimitive() ? Array.get(Array.newInstance(to, 1), 0) : null;
        }
        if (to == Object.class) {
            return value;
        }
        if (to.isArray() && value instanceof List) {
            List<?> items = (List<?>) value;
            Type of = type instanceof GenericArrayType
                    ? ((GenericArrayType) type).getGenericComponentType() : to.getComponentType();
            Object made = Array.newInstance(to.getComponentType(), items.size());
            for (int i = 0; i < items.size(); i++) {
                Array.set(made, i, as(items.get(i), of));
            }
            return made;
        }
        if (Iterable.class.isAssignableFrom(to)) {
            Collection<Object> made = made(to, to.isAssignableFrom(ArrayList.class) ? new ArrayList<>()
                    : to.isAssignableFrom(LinkedHashSet.class) ? new LinkedHashSet<>() : null);
            for (Object each : value instanceof List ? (List<?>) value : List.of(value)) {
                made.add(as(each, part(type, 0)));
            }
            return made;
        }
        if (value instanceof Map) {
            return ofMap((Map<?, ?>) value, type, to);
        }
        if (value instanceof List) {
            throw new IllegalArgumentException("a list is no " + to.getName());
        }
        return ofScalar(value, to);
    }

    @SuppressWarnings("unchecked")
    private static <T> T made(Class<?> of, T usual) throws Exception {
        return usual != null ? usual : (T) of.getConstructor().newInstance();
    }

    private static Object ofMap(Map<?, ?> value, Type type, Class<?> to) throws Exception {
        if (to == String.class || to.isPrimitive() || to.getName().startsWith("java.lang.")) {
            throw new IllegalArgumentException("an object is no " + to.getName());
        }
        if (Map.class.isAssignableFrom(to)) {
            boolean isUsual = to.isAssignableFrom(LinkedHashMap.class);
            Map<Object, Object> made = made(to, isUsual ? new LinkedHashMap<>() : null);
            for (Map.Entry<?, ?> each : value.entrySet()) {
                made.put(as(each.getKey(), part(type, 0)), as(each.getValue(), part(type, 1)));
            }
            return made;
        }
        Method[] components = components(to);
        if (components != null) {
            Class<?>[] types = Arrays.stream(components).map(Method::getReturnType).toArray(Class<?>[]::new);
            Object[] given = new Object[components.length];
            for (int i = 0; i < given.length; i++) {
                given[i] = as(value.get(components[i].getName()), components[i].getGenericReturnType());
            }
            Constructor<?> canonical = to.getDeclaredConstructor(types);
            canonical.setAccessible(true);
            return canonical.newInstance(given);
        }
        Object made = bean(to);
        Map<String, Member> setters = SETTERS.computeIfAbsent(to, Json::setters);
        for (Map.Entry<?, ?> each : value.entrySet()) {
            Member setter = setters.get(plain(to, (String) each.getKey()));
            if (setter instanceof Method) {
                ((Method) setter).invoke(made, as(each.getValue(), ((Method) setter).getGenericParameterTypes()[0]));
            } else if (setter != null) {
                ((Field) setter).set(made, as(each.getValue(), ((Field) setter).getGenericType()));
            }
        }
        return made;
    }

    /** Of an event of AWS's without a plain constructor: by the one that takes most, of nothing. */
    private static Object bean(Class<?> of) throws Exception {
        Constructor<?> found = Arrays.stream(of.getDeclaredConstructors())
                .filter(each -> each.getParameterCount() == 0 || of.getName().startsWith(EVENTS))
                .min((one, other) -> one.getParameterCount() - other.getParameterCount())
                .orElseThrow(() -> new IllegalArgumentException(of.getName() + " has no plain constructor"));
        found.setAccessible(true);
        Object[] given = new Object[found.getParameterCount()];
        for (int i = 0; i < given.length; i++) {
            given[i] = as(null, found.getParameterTypes()[i]);
        }
        return found.newInstance(given);
    }

    private static String plain(Class<?> of, String name) {
        return of.getName().startsWith(EVENTS) ? name.replace("-", "").toLowerCase(Locale.ROOT) : name;
    }

    private static Map<String, Member> setters(Class<?> of) {
        Map<String, Member> found = new LinkedHashMap<>();
        for (Class<?> each = of; each != null; each = each.getSuperclass()) {
            for (Field field : each.getDeclaredFields()) {
                boolean isTaken = Modifier.isPublic(field.getModifiers()) || each.getName().startsWith(EVENTS);
                if (isTaken && !Modifier.isStatic(field.getModifiers())) {
                    field.setAccessible(true);
                    found.putIfAbsent(plain(of, field.getName()), field);
                }
            }
        }
        for (Method method : of.getMethods()) {
            boolean isSetter = method.getName().startsWith("set") && method.getParameterCount() == 1;
            if (isSetter && method.getName().length() > 3 && !method.isBridge()) {
                method.setAccessible(true);
                found.put(plain(of, member(method.getName().substring(3))), method);
            }
        }
        return found;
    }

    /** Of `SetName` without what begins it: as the beans' rules have it, `URL` stays. */
    private static String member(String name) {
        boolean stays = name.length() > 1 && Character.isUpperCase(name.charAt(1));
        return stays ? name : Character.toLowerCase(name.charAt(0)) + name.substring(1);
    }

    private static Object ofScalar(Object value, Class<?> to) throws Exception {
        if (to.isInstance(value)) {
            return value;
        }
        String said = value.toString();
        if (to == String.class || to == CharSequence.class) {
            return said;
        }
        if (to == boolean.class || to == Boolean.class) {
            return Boolean.valueOf(said);
        }
        if (to == char.class || to == Character.class) {
            return said.charAt(0);
        }
        if (to.isPrimitive() || Number.class.isAssignableFrom(to)) {
            BigDecimal number = new BigDecimal(said);
            switch (to.getSimpleName()) {
                case "int": case "Integer": return number.intValue();
                case "long": case "Long": return number.longValue();
                case "double": case "Double": return number.doubleValue();
                case "float": case "Float": return number.floatValue();
                case "short": case "Short": return number.shortValue();
                case "byte": case "Byte": return number.byteValue();
                case "BigInteger": return number.toBigInteger();
                default: return number;
            }
        }
        if (to == byte[].class) {
            return Base64.getDecoder().decode(said);
        }
        if (to == ByteBuffer.class) {
            return ByteBuffer.wrap(Base64.getDecoder().decode(said));
        }
        if (to == Date.class && value instanceof Number) { // seconds in AWS's events, else milliseconds
            double number = ((Number) value).doubleValue();
            return new Date((long) (number < 1e11 ? 1000 * number : number));
        }
        if (to.isEnum()) {
            return Arrays.stream(to.getEnumConstants()).filter(each -> ((Enum<?>) each).name().equals(said)).findAny()
                    .orElse(null); // as AWS's
        }
        return parsed(said, to);
    }

    /** By its own `parse` or `valueOf`, else by its constructor: java.time, joda, UUID. */
    private static Object parsed(String said, Class<?> to) throws Exception {
        for (String name : new String[] {"parse", "valueOf", "fromString"}) {
            for (Class<?> taken : new Class<?>[] {CharSequence.class, String.class}) {
                try {
                    Method found = to.getMethod(name, taken);
                    if (Modifier.isStatic(found.getModifiers()) && to.isAssignableFrom(found.getReturnType())) {
                        return found.invoke(null, said);
                    }
                } catch (NoSuchMethodException none) {
                    continue;
                }
            }
        }
        return to.getConstructor(String.class).newInstance(said);
    }

    /** The accessors of a record's components, in order; null for another class. Java 16 has brought records. */
    private static Method[] components(Class<?> of) throws Exception {
        if (of.getSuperclass() == null || !of.getSuperclass().getName().equals("java.lang.Record")) {
            return null;
        }
        Object[] found = (Object[]) Class.class.getMethod("getRecordComponents").invoke(of);
        Method[] made = new Method[found.length];
        for (int i = 0; i < made.length; i++) {
            made[i] = (Method) found[i].getClass().getMethod("getAccessor").invoke(found[i]);
            made[i].setAccessible(true);
        }
        return made;
    }

    // --- answers to text ---------------------------------------------------------------------------------------

    static String text(Object value) throws Exception {
        StringBuilder made = new StringBuilder();
        write(value, made);
        return made.toString();
    }

    private static void write(Object value, StringBuilder to) throws Exception {
        if (value == null || value instanceof Boolean) {
            to.append(value);
        } else if (value instanceof Number) {
            String number = value.toString();
            to.append(number.matches("NaN|-?Infinity") ? quoted(number) : number);
        } else if (value instanceof Map) {
            to.append('{');
            for (Map.Entry<?, ?> each : ((Map<?, ?>) value).entrySet()) {
                member(String.valueOf(each.getKey()), each.getValue(), to);
            }
            to.append('}');
        } else if (value instanceof Iterable) {
            to.append('[');
            for (Object each : (Iterable<?>) value) {
                item(each, to);
            }
            to.append(']');
        } else if (value instanceof byte[]) {
            to.append(quoted(Base64.getEncoder().encodeToString((byte[]) value)));
        } else if (value.getClass().isArray()) {
            to.append('[');
            for (int i = 0; i < Array.getLength(value); i++) {
                item(Array.get(value, i), to);
            }
            to.append(']');
        } else if (value instanceof Enum) {
            to.append(quoted(((Enum<?>) value).name()));
        } else if (value instanceof Date) {
            to.append(((Date) value).getTime());
        } else if (value.getClass().getName().matches("(java|javax|jdk|sun|org\\.joda)\\..*")) {
            to.append(quoted(value.toString())); // a text, a time, a UUID
        } else {
            to.append('{');
            Map<String, Member> getters = GETTERS.computeIfAbsent(value.getClass(), Json::getters);
            for (Map.Entry<String, Member> each : getters.entrySet()) {
                Member getter = each.getValue();
                Object got = getter instanceof Method ? ((Method) getter).invoke(value) : ((Field) getter).get(value);
                if (got != null) { // as AWS's
                    member(each.getKey(), got, to);
                }
            }
            to.append('}');
        }
    }

    private static void member(String name, Object value, StringBuilder to) throws Exception {
        to.append(to.charAt(to.length() - 1) == '{' ? "" : ",").append(quoted(name)).append(':');
        write(value, to);
    }

    private static void item(Object value, StringBuilder to) throws Exception {
        to.append(to.charAt(to.length() - 1) == '[' ? "" : ",");
        write(value, to);
    }

    private static Map<String, Member> getters(Class<?> of) {
        Map<String, Member> found = new LinkedHashMap<>();
        try {
            Method[] components = components(of);
            for (Method each : components == null ? new Method[0] : components) {
                found.put(each.getName(), each);
            }
        } catch (Exception problem) {
            throw new IllegalArgumentException(problem);
        }
        for (Field each : of.getFields()) {
            if (!Modifier.isStatic(each.getModifiers())) {
                each.setAccessible(true);
                found.put(each.getName(), each);
            }
        }
        for (Method each : of.getMethods()) {
            String name = each.getName();
            boolean isBoolean = each.getReturnType() == boolean.class;
            int begin = name.startsWith("get") ? 3 : name.startsWith("is") && isBoolean ? 2 : 0;
            boolean isGetter = begin > 0 && name.length() > begin && each.getParameterCount() == 0;
            if (isGetter && !Modifier.isStatic(each.getModifiers()) && !name.equals("getClass") && !each.isBridge()) {
                each.setAccessible(true);
                found.put(member(name.substring(begin)), each);
            }
        }
        return found;
    }

    private static String quoted(String said) {
        StringBuilder made = new StringBuilder(said.length() + 2).append('"');
        for (int i = 0; i < said.length(); i++) {
            char each = said.charAt(i);
            int known = "\b\f\n\r\t\"\\".indexOf(each);
            if (known >= 0) {
                made.append('\\').append("bfnrt\"\\".charAt(known));
            } else if (each < ' ') {
                made.append(String.format("\\u%04x", (int) each));
            } else {
                made.append(each);
            }
        }
        return made.append('"').toString();
    }
}
