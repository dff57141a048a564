/* The tables of modules, in place of CPython's Python/frozen.c and Modules/config.c: the built-in ones that the sidecar
 * imports, and for the time of its making those that the image consists of. */
#include <Python.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image.h"

/* Name in Python, and the function that makes it (executable.py reads the names). The first four are the core's. */
#define BUILT_IN                                                                                                       \
    MODULE(_imp, PyInit__imp)                                                                                          \
    MODULE(_thread, PyInit__thread)                                                                                    \
    MODULE(_warnings, _PyWarnings_Init)                                                                                \
    MODULE(_weakref, PyInit__weakref)                                                                                  \
    MODULE(_codecs, PyInit__codecs)                                                                                    \
    MODULE(_collections, PyInit__collections)                                                                          \
    MODULE(_image, PyInit__image)                                                                                      \
    MODULE(_json, PyInit__json)                                                                                        \
    MODULE(_socket, PyInit__socket)                                                                                    \
    MODULE(fcntl, PyInit_fcntl)                                                                                        \
    MODULE(gc, PyInit_gc)                                                                                              \
    MODULE(posix, PyInit_posix)                                                                                        \
    MODULE(select, PyInit_select)                                                                                      \
    MODULE(time, PyInit_time)

/* COMPILED, of the same form: our own modules that mypyc has made C of (compiled.py writes this file). */
#include "compiled.h"

#define MODULE(name, function) PyObject *function(void);
BUILT_IN COMPILED
#undef MODULE

#define MODULE(name, function) {#name, function},
struct _inittab _PyImport_Inittab[] = {BUILT_IN COMPILED{"builtins", NULL}, {"sys", NULL}, {0}};
#undef MODULE

static struct _frozen given[256];
static const struct _frozen none[1];

struct _module_alias {
    const char *name, *original;
};
static const struct _module_alias no_aliases[1];

const struct _module_alias *_PyImport_FrozenAliases = no_aliases;
const struct _frozen *_PyImport_FrozenBootstrap = none, *_PyImport_FrozenStdlib = none, *_PyImport_FrozenTest = none;
const struct _frozen *PyImport_FrozenModules = given;

/* From stdin, each module as freeze.py writes it: its name with a zero byte, 1 for a package, 4 bytes of size (the least
 * first), and its code. All of it in pages that are not the image's. */
int read_modules(void)
{
    enum { ROOM_FOR_CODE = 16 << 20 };
    unsigned char *at = mmap(NULL, ROOM_FOR_CODE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return -1;
    size_t size = 0;
    for (ssize_t more = 1; more > 0 && size < ROOM_FOR_CODE; size += more > 0 ? more : 0)
        more = read(0, at + size, ROOM_FOR_CODE - size);
    const unsigned char *end = at + size;
    struct _frozen *module = given;
    while (at < end && module < given + sizeof given / sizeof *given - 1) {
        module->name = (const char *)at;
        at += strlen(module->name) + 1;
        module->is_package = *at++;
        uint32_t bytes;
        memcpy(&bytes, at, sizeof bytes);
        module->size = bytes;
        module->code = at + sizeof bytes;
        at += sizeof bytes + bytes;
        module++;
    }
    return at == end && size > 0 ? 0 : -1;
}

/* All of them; those that are not ours have been imported by the interpreter, or are by ours. */
int import_modules(void)
{
    if (start_compiled() < 0)
        return -1;
    for (const struct _frozen *module = given; module->name != NULL; module++) {
        PyObject *imported = PyImport_ImportModule(module->name);
        if (imported == NULL)
            return -1;
        Py_DECREF(imported);
    }
    memset(given, 0, sizeof given);
    forget_initialisation();
    if (PyDict_PopString(PyImport_GetModuleDict(), "spine__mypyc", NULL) < 0)
        return -1;
    return 0;
}
