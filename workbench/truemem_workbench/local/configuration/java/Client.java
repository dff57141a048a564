package truemem;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOError;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Proxy;
import java.lang.reflect.Type;
import java.lang.reflect.TypeVariable;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Runs a handler in Java where AWS's runtime interface client is not there: asks the Runtime API for events, and calls
 * `package.Class::method`, or `package.Class` by its interface. Which method is taken, what is written as an error and
 * what ends the process is as in AWS's client (aws-lambda-java-libs, EventHandlerLoader and AWSLambda). It keeps
 * nothing of an invocation. It knows aws-lambda-java-core by reflection alone: that is the function's.
 */
public final class Client {
    private static final String API = "http://" + System.getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/";
    private static final String CORE = "com.amazonaws.services.lambda.runtime.";
    private static final String[] REFLECTION = {"java.lang.reflect.", "jdk.internal.reflect.", "java.lang.invoke."};
    private static final byte[] NULL = {'n', 'u', 'l', 'l'};

    private final Method method;
    private final Object instance;
    private final Type[] types;
    private final boolean isStream;

    private Client(Class<?> of, Method method) throws Exception {
        this.method = method;
        Map<TypeVariable<?>, Type> bound = new HashMap<>();
        bind(of, bound);
        types = method.getGenericParameterTypes();
        for (int i = 0; i < types.length; i++) {
            types[i] = bound.getOrDefault(types[i], types[i]);
        }
        for (Map.Entry<TypeVariable<?>, Type> each : bound.entrySet()) {
            // what the compiler has made for a method of a superclass that is not public takes any object
            Class<?> by = (Class<?>) each.getKey().getGenericDeclaration();
            boolean isInput = by.getName().equals(CORE + "RequestHandler") && by.getTypeParameters()[0] == each.getKey();
            if (isInput && method.isBridge()) {
                types[0] = each.getValue();
            }
        }
        List<Type> raw = Arrays.asList(types);
        isStream = raw.contains(InputStream.class) || raw.contains(OutputStream.class);
        method.setAccessible(true); // a public method of a class that is not
        instance = Modifier.isStatic(method.getModifiers()) ? null : of.getConstructor().newInstance();
    }

    public static void main(String[] arguments) throws Exception {
        Client client = null;
        try {
            client = of(arguments[0]);
        } catch (Throwable problem) {
            fails("init/error", "Runtime.BadFunctionCode", problem);
            System.exit(1);
        }
        String atOnce = System.getenv("AWS_LAMBDA_MAX_CONCURRENCY");
        if (atOnce == null) {
            client.serve();
            return;
        }
        ExecutorService threads = Executors.newFixedThreadPool(Integer.parseInt(atOnce));
        for (int i = 0; i < Integer.parseInt(atOnce); i++) {
            Client shared = client;
            threads.submit(() -> {
                shared.serve();
                return null;
            });
        }
    }

    /** Raises what the class raises when it is loaded or made, and Fault where there is no such class or method. */
    private static Client of(String handler) throws Throwable {
        int at = handler.lastIndexOf("::");
        String name = at < 0 ? handler : handler.substring(0, at);
        String wanted = at < 0 ? "handleRequest" : handler.substring(at + 2);
        Class<?> found;
        try {
            found = Class.forName(name);
        } catch (ClassNotFoundException problem) {
            throw new Fault("Class not found: " + name, problem);
        } catch (Throwable problem) {
            String said = problem.getMessage() == null ? "" : ": " + problem.getMessage();
            throw new Fault("Error loading class " + name + said, problem);
        }
        Method best = Arrays.stream(found.getMethods())
                .filter(each -> each.getName().equals(wanted) && isTaken(each.getParameterTypes()))
                .min(Comparator.comparing(Method::isBridge).thenComparing(each -> -weight(each.getParameterTypes())))
                .orElseThrow(() -> new Fault("No public method named " + wanted
                        + " with appropriate method signature found on class " + name, null));
        try {
            return new Client(found, best);
        } catch (InvocationTargetException problem) {
            throw new Fault(problem.getCause().getLocalizedMessage(), problem.getCause());
        } catch (NoSuchMethodException problem) {
            throw new Fault("Class " + name + " has no public zero-argument constructor", problem);
        }
    }

    private static boolean isContext(Class<?> type) {
        return type.getName().equals(CORE + "Context");
    }

    private static boolean isTaken(Class<?>[] types) {
        int count = types.length - (types.length > 0 && isContext(types[types.length - 1]) ? 1 : 0);
        return count < 2 || (count == 2 && types[0] == InputStream.class && types[1] == OutputStream.class);
    }

    private static int weight(Class<?>[] types) {
        return types.length + (types.length > 0 && isContext(types[types.length - 1]) ? 1 : 0);
    }

    /** What the type variables of its superclasses and interfaces stand for. */
    private static void bind(Class<?> of, Map<TypeVariable<?>, Type> bound) {
        List<Type> above = new ArrayList<>(Arrays.asList(of.getGenericInterfaces()));
        above.add(of.getGenericSuperclass());
        for (Type each : above) {
            Class<?> raw = null;
            if (each instanceof ParameterizedType) {
                raw = (Class<?>) ((ParameterizedType) each).getRawType();
                Type[] given = ((ParameterizedType) each).getActualTypeArguments();
                for (int i = 0; i < given.length; i++) {
                    bound.put(raw.getTypeParameters()[i], bound.getOrDefault(given[i], given[i]));
                }
            } else if (each != null) {
                raw = (Class<?>) each;
            }
            if (raw != null) {
                bind(raw, bound);
            }
        }
    }

    /** Until the platform ends the process, or memory does. */
    private void serve() throws Exception {
        while (true) {
            HttpURLConnection next = open("invocation/next");
            byte[] event;
            try (InputStream body = next.getInputStream()) {
                event = body.readAllBytes();
            }
            String trace = next.getHeaderField("Lambda-Runtime-Trace-Id");
            if (trace == null) {
                System.clearProperty("com.amazonaws.xray.traceHeader");
            } else {
                System.setProperty("com.amazonaws.xray.traceHeader", trace);
            }
            String path = "invocation/" + next.getHeaderField("Lambda-Runtime-Aws-Request-Id");
            try {
                post(path + "/response", null, call(event, next));
                Thread.interrupted(); // the handler's own
            } catch (Throwable problem) {
                fails(path + "/error", "Runtime.UserException", problem);
                if (problem instanceof VirtualMachineError || problem instanceof IOError) {
                    return;
                }
            }
        }
    }

    private byte[] call(byte[] event, HttpURLConnection next) throws Throwable {
        Object[] given = new Object[types.length];
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        for (int i = 0; i < types.length; i++) {
            if (types[i] instanceof Class && isContext((Class<?>) types[i])) {
                given[i] = context((Class<?>) types[i], next);
            } else if (types[i] == InputStream.class) {
                given[i] = new ByteArrayInputStream(event);
            } else if (types[i] == OutputStream.class) {
                given[i] = output;
            } else {
                try {
                    given[i] = Json.read(new String(event, StandardCharsets.UTF_8), types[i]);
                } catch (Exception problem) {
                    throw new RuntimeException("An error occurred during JSON parsing", problem);
                }
            }
        }
        Object answer;
        try {
            answer = method.invoke(instance, given);
        } catch (InvocationTargetException problem) {
            throw problem.getCause();
        }
        if (isStream) {
            return Arrays.asList(types).contains(OutputStream.class) ? output.toByteArray() : NULL;
        }
        try {
            return Json.text(answer).getBytes(StandardCharsets.UTF_8);
        } catch (Exception problem) {
            throw new RuntimeException("An error occurred during JSON serialization of response", problem);
        }
    }

    private static Object context(Class<?> type, HttpURLConnection next) {
        Map<String, Object> said = new HashMap<>();
        said.put("getAwsRequestId", next.getHeaderField("Lambda-Runtime-Aws-Request-Id"));
        said.put("getInvokedFunctionArn", next.getHeaderField("Lambda-Runtime-Invoked-Function-Arn"));
        said.put("getTenantId", next.getHeaderField("Lambda-Runtime-Aws-Tenant-Id"));
        said.put("getXrayTraceId", next.getHeaderField("Lambda-Runtime-Trace-Id"));
        said.put("getLogGroupName", System.getenv("AWS_LAMBDA_LOG_GROUP_NAME"));
        said.put("getLogStreamName", System.getenv("AWS_LAMBDA_LOG_STREAM_NAME"));
        said.put("getFunctionName", System.getenv("AWS_LAMBDA_FUNCTION_NAME"));
        said.put("getFunctionVersion", System.getenv("AWS_LAMBDA_FUNCTION_VERSION"));
        said.put("getMemoryLimitInMB", Integer.valueOf(System.getenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")));
        long deadline = Long.parseLong(next.getHeaderField("Lambda-Runtime-Deadline-Ms"));
        return proxy(type, (name, given) -> {
            if (name.equals("getRemainingTimeInMillis")) {
                return (int) Math.max(0, deadline - System.currentTimeMillis());
            }
            return name.equals("getLogger") ? logger(type.getClassLoader()) : said.get(name);
        });
    }

    private static Object logger(ClassLoader loader) throws ClassNotFoundException {
        return proxy(Class.forName(CORE + "LambdaLogger", false, loader), (name, given) -> {
            Object text = given[0] instanceof byte[] ? new String((byte[]) given[0], StandardCharsets.UTF_8) : given[0];
            System.out.println(text);
            return null;
        });
    }

    private interface Answers {
        Object to(String name, Object[] given) throws Exception;
    }

    private static Object proxy(Class<?> type, Answers answers) {
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, called, given) -> {
            switch (called.getName()) {
                case "toString":
                    return type.getName();
                case "hashCode":
                    return System.identityHashCode(self);
                case "equals":
                    return self == given[0];
                default:
                    return answers.to(called.getName(), given);
            }
        });
    }

    private static void fails(String path, String kind, Throwable problem) throws Exception {
        Throwable cause = problem instanceof Fault && problem.getCause() != null ? problem.getCause() : problem;
        for (Throwable each = problem; each != null; each = each.getCause()) {
            each.setStackTrace(theirs(each.getStackTrace()));
        }
        String message = problem.getLocalizedMessage();
        String type = cause instanceof Fault ? null : cause.getClass().getName();
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("errorMessage", message == null ? type : message);
        if (type != null) {
            said.put("errorType", type);
        }
        if (!(problem instanceof Fault)) {
            List<String> frames = new ArrayList<>();
            for (StackTraceElement each : problem.getStackTrace()) {
                frames.add(each.toString());
            }
            said.put("stackTrace", frames);
        }
        StringWriter trace = new StringWriter();
        cause.printStackTrace(new PrintWriter(trace));
        System.out.println(said.get("errorMessage") + (type == null ? "" : ": " + type + "\n" + trace));
        post(path, kind, Json.text(said).getBytes(StandardCharsets.UTF_8));
    }

    /** Without the frames of this class, and those by which it has called. */
    private static StackTraceElement[] theirs(StackTraceElement[] frames) {
        int end = 0;
        while (end < frames.length && !frames[end].getClassName().startsWith("truemem.")) {
            end++;
        }
        while (0 < end && end < frames.length && isReflection(frames[end - 1].getClassName())) {
            end--;
        }
        return Arrays.copyOf(frames, end);
    }

    private static boolean isReflection(String name) {
        return Arrays.stream(REFLECTION).anyMatch(name::startsWith);
    }

    private static HttpURLConnection open(String path) throws IOException {
        return (HttpURLConnection) new URL(API + path).openConnection(java.net.Proxy.NO_PROXY); // whatever is set
    }

    private static void post(String path, String kind, byte[] body) throws IOException {
        HttpURLConnection answer = open(path);
        answer.setRequestMethod("POST");
        answer.setRequestProperty("Content-Type", "application/json");
        if (kind != null) {
            answer.setRequestProperty("Lambda-Runtime-Function-Error-Type", kind);
        }
        answer.setFixedLengthStreamingMode(body.length);
        answer.setDoOutput(true);
        try (OutputStream output = answer.getOutputStream()) {
            output.write(body);
        }
        int status = answer.getResponseCode();
        try (InputStream said = status < 400 ? answer.getInputStream() : answer.getErrorStream()) {
            if (said != null) {
                said.readAllBytes(); // only then the connection is used again
            }
        }
        if (status >= 400) {
            throw new IOException(path + " was answered with " + status);
        }
    }

    /** A handler that cannot be called: its message, without a stack. */
    private static final class Fault extends RuntimeException {
        private static final long serialVersionUID = 1;

        Fault(String message, Throwable cause) {
            super(message, cause);
        }
    }
}
