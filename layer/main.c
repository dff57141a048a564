/* The sidecar as one static file: CPython without a search path, with everything imported (image.c).
 *
 * Isolated: nothing of the function's environment (PYTHON*, LD_*) or file system reaches it.
 */
#include <Python.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image.h"

/* CPython would look for its standard library here: stat() by stat(), and 0.5 ms. There is none. getpath.o is left
 * out of the archive. */
PyStatus _PyConfig_InitPathConfig(PyConfig *config, int compute_path_config)
{
    (void)config, (void)compute_path_config;
    return PyStatus_Ok();
}

static void must(PyStatus status)
{
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);
}

/* A closed descriptor 0, 1 or 2 would be given to the first socket that is opened, and what is said on stderr sent to
 * the Extensions API. Nor does CPython start with a directory as its standard input. */
static void fill_descriptors(void)
{
    struct stat about;
    if (fstat(0, &about) == 0 && S_ISDIR(about.st_mode))
        close(0);
    for (;;) {
        int descriptor = open("/dev/null", O_RDWR);
        if (descriptor < 0) /* an empty root: a socket that leads nowhere takes the place as well */
            descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
        if (descriptor > 2)
            close(descriptor);
        if (descriptor < 0 || descriptor > 2)
            return;
    }
}

/* CPython counts how deep its C code goes, up to 10,000 calls, and takes for granted that there is stack for them: JSON
 * that is nested as deep as that ends in a RecursionError with 4 MiB, in a crash with 2. */
static void enough_stack(void)
{
    struct rlimit limit;
    rlim_t enough = 8 << 20;
    if (getrlimit(RLIMIT_STACK, &limit) < 0 || limit.rlim_cur >= enough)
        return;
    limit.rlim_cur = limit.rlim_max < enough ? limit.rlim_max : enough;
    (void)setrlimit(RLIMIT_STACK, &limit);
}

/* Below that it still starts, perhaps, and runs out of memory later: measured are 7 and 4 MiB, and 7 more in a flood of
 * telemetry. Said here, as CPython itself may not start. */
static void tell_of_limit(int which, const char *name, unsigned needed_mib)
{
    struct rlimit limit;
    if (getrlimit(which, &limit) == 0 && limit.rlim_cur < (rlim_t)needed_mib << 20)
        dprintf(2, "truemem WARN %s is %u MiB, truemem needs about %u\n", name, (unsigned)(limit.rlim_cur >> 20),
                needed_mib);
}

static void start(void)
{
    PyPreConfig pre;
    PyPreConfig_InitIsolatedConfig(&pre);
    pre.utf8_mode = 1;
    pre.configure_locale = 0;
    pre.coerce_c_locale = 0;
    must(Py_PreInitialize(&pre));

    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.site_import = 0;
    config.write_bytecode = 0;
    config.pathconfig_warnings = 0;
    config.parse_argv = 0;
    config.optimization_level = 2;
    config.install_signal_handlers = 0;
    config.module_search_paths_set = 1; /* and empty */
    config.use_hash_seed = 1;           /* 0: hashes are in the image, so they are no secret (docs/security.md) */
    wchar_t **nowhere[] = {&config.program_name, &config.executable, &config.base_executable, &config.home,
                           &config.prefix, &config.base_prefix, &config.exec_prefix, &config.base_exec_prefix,
                           &config.stdlib_dir, &config.platlibdir};
    for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++)
        must(PyConfig_SetString(&config, nowhere[i], L"/opt"));
    must(Py_InitializeFromConfig(&config));
    PyConfig_Clear(&config);
}

/* All that does not depend on where and when it runs. */
__attribute__((noinline)) static void initialise(void)
{
    use_room();
    if (read_modules() < 0) {
        fputs("stdin is not what freeze.py writes\n", stderr);
        _exit(1);
    }
    start();
    PyGC_Disable(); /* until the sidecar has made what stays */
    PyObject *collector = import_modules() == 0 ? PyImport_ImportModule("gc") : NULL;
    if (collector == NULL || PyObject_CallMethod(collector, "freeze", NULL) == NULL) {
        PyErr_Print();
        _exit(1);
    }
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* EPIPE is an answer like others */
    signal(SIGXFSZ, SIG_IGN); /* and so is EFBIG */
    if (!is_image)
        initialise();
    if (argc > 2 && strcmp(argv[1], "--image") == 0)
        write_image(argv[2]);
    fill_descriptors();
    tell_of_limit(RLIMIT_AS, "RLIMIT_AS", 16);
    tell_of_limit(RLIMIT_DATA, "RLIMIT_DATA", 12);
    enough_stack();
    int check = argc > 1 && strcmp(argv[1], "--check") == 0, resumed = resume();
    const char *name = check ? "truemem.lifecycle.self_check" : "truemem.__main__";
    PyObject *module = resumed < 0 ? NULL : PyImport_ImportModule(name);
    PyObject *path = module != NULL ? PyUnicode_DecodeFSDefault(argc > 0 ? argv[0] : "") : NULL;
    PyObject *result = path != NULL ? PyObject_CallMethod(module, "main", "O", path) : NULL;
    if (result == NULL && PyErr_ExceptionMatches(PyExc_SystemExit))
        _exit(1); /* the only code there is. Python's own end would look for what an image has forgotten */
    if (result == NULL)
        PyErr_Print();
    _exit(result == NULL); /* what the sidecar wrote is written: no buffers, nothing to finalize */
}
