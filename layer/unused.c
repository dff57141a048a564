/* Takes out of the image what no module names: methods of built-in types, functions and constants of built-in modules.
 * `unused.py` finds all names that the source has: what has another one is never looked up. The functions' code is then
 * without a caller, and `unused.py` takes it out of the file.
 */
#define Py_BUILD_CORE
#include <Python.h>
#include <internal/pycore_hashtable.h>
#include <internal/pycore_import.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_obmalloc.h>
#include <internal/pycore_runtime.h>
#include <internal/pycore_typeobject.h>
#include <sys/mman.h>

#include "image.h"

static struct {
    void *entry; /* NULL, if something still refers to it */
    int is_method; /* a PyMethodDef, else a PyGetSetDef */
} taken_out[4096];
static size_t count;

/* Its entry in a table of C functions, if it has one. */
static void *entry_of(PyObject *object, int *is_method)
{
    *is_method = 1;
    if (PyCFunction_Check(object))
        return ((PyCFunctionObject *)object)->m_ml;
    if (Py_IS_TYPE(object, &PyMethodDescr_Type) || Py_IS_TYPE(object, &PyClassMethodDescr_Type))
        return ((PyMethodDescrObject *)object)->d_method;
    *is_method = 0;
    return Py_IS_TYPE(object, &PyGetSetDescr_Type) ? ((PyGetSetDescrObject *)object)->d_getset : NULL;
}

/* An object under two names, or one that C keeps. */
static int find_kept(PyObject *object, void *unused)
{
    (void)unused;
    int is_method;
    void *entry = entry_of(object, &is_method);
    for (size_t at = 0; entry != NULL && at < count; at++)
        if (taken_out[at].entry == entry)
            taken_out[at].entry = NULL;
    return 1; /* go on */
}

static void clear_entries(void)
{
    PyUnstable_GC_VisitObjects(find_kept, NULL);
    for (size_t at = 0; at < count; at++) {
        if (taken_out[at].entry == NULL)
            continue;
        if (taken_out[at].is_method) {
            ((PyMethodDef *)taken_out[at].entry)->ml_meth = NULL;
        } else {
            ((PyGetSetDef *)taken_out[at].entry)->get = NULL;
            ((PyGetSetDef *)taken_out[at].entry)->set = NULL;
        }
    }
    memset(taken_out, 0, sizeof taken_out);
}

enum { MOST = 1 << 14 };
static char **names; /* in the order of strcmp() */
static size_t names_count;

static int compare(const void *text, const void *name)
{
    return strcmp(text, *(char *const *)name);
}

static int is_named(PyObject *name)
{
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    return text == NULL || bsearch(text, names, names_count, sizeof *names, compare) != NULL;
}

/* From the command line, by spaces. The table is in a page that is not the image's. */
static int read_names(char *all)
{
    names = mmap(NULL, MOST * sizeof *names, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (names == MAP_FAILED)
        return -1;
    for (char *name; (name = strsep(&all, " ")) != NULL; names_count++) {
        if (names_count == MOST || (names_count > 0 && strcmp(names[names_count - 1], name) >= 0))
            return -1;
        names[names_count] = name;
    }
    return 0;
}

/* Keep of the dictionary what is named. Returns -1 with an exception set. */
static int keep_named(PyObject *dict)
{
    PyObject *kept = PyDict_New(), *name, *value;
    Py_ssize_t at = 0;
    while (kept != NULL && PyDict_Next(dict, &at, &name, &value)) {
        if (is_named(name)) {
            if (PyDict_SetItem(kept, name, value) < 0)
                return -1;
            continue;
        }
        if (count == sizeof taken_out / sizeof *taken_out)
            return -1;
        void *entry = entry_of(value, &taken_out[count].is_method);
        if (entry != NULL)
            taken_out[count++].entry = entry;
    }
    if (kept == NULL)
        return -1;
    if (PyDict_GET_SIZE(kept) < PyDict_GET_SIZE(dict)) {
        PyDict_Clear(dict);
        if (PyDict_Update(dict, kept) < 0)
            return -1;
    }
    Py_DECREF(kept);
    return 0;
}

/* Add all types that are derived from this one. */
static int add_derived(PyObject *type, PyObject *types)
{
    PyObject *derived = PyObject_CallMethod((PyObject *)&PyType_Type, "__subclasses__", "O", type);
    for (Py_ssize_t at = 0; derived != NULL && at < PyList_GET_SIZE(derived); at++)
        if (add_derived(PyList_GET_ITEM(derived, at), types) < 0)
            return -1;
    Py_XDECREF(derived);
    return derived != NULL ? PyList_Append(types, type) : -1;
}

static int keep_named_of_types(void)
{
    PyObject *types = PyList_New(0);
    if (types == NULL || add_derived((PyObject *)&PyBaseObject_Type, types) < 0)
        return -1;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(types); at++) {
        PyObject *dict = PyType_GetDict((PyTypeObject *)PyList_GET_ITEM(types, at));
        if (dict == NULL || keep_named(dict) < 0)
            return -1;
        Py_DECREF(dict);
    }
    Py_DECREF(types);
    return 0;
}

static int keep_named_of_modules(void)
{
    PyObject *all = PyDict_Values(PyImport_GetModuleDict());
    for (Py_ssize_t at = 0; all != NULL && at < PyList_GET_SIZE(all); at++) {
        PyObject *module = PyList_GET_ITEM(all, at);
        if (!PyModule_Check(module))
            continue;
        if (keep_named(PyModule_GetDict(module)) < 0)
            return -1;
        PyModuleDef *by = PyModule_GetDef(module);
        for (PyModuleDef_Slot *slot = by != NULL ? by->m_slots : NULL; slot != NULL && slot->slot != 0; slot++)
            if (slot->slot == Py_mod_exec)
                slot->value = NULL; /* it has been made */
    }
    Py_XDECREF(all);
    return all != NULL ? 0 : -1;
}

/* Lookups remembered by type and name: of what is gone. */
static void forget_lookups(void)
{
    struct type_cache *cache = &PyInterpreterState_Get()->types.type_cache;
    for (size_t at = 0; at < sizeof cache->hashtable / sizeof *cache->hashtable; at++) {
        struct type_cache_entry *entry = &cache->hashtable[at];
        if (entry->name != NULL && !is_named(entry->name)) {
            Py_SETREF(entry->name, Py_None);
            entry->version = 0;
            entry->value = NULL;
        }
    }
}

int take_out_unnamed(char *all)
{
    if (read_names(all) < 0) {
        fputs("the names are not sorted, or too many\n", stderr);
        return -1;
    }
    if (keep_named_of_modules() < 0 || keep_named_of_types() < 0)
        return -1;
    forget_lookups();
    names = NULL;
    PyDict_Clear(PyInterpreterState_Get()->builtins_copy); /* for the interpreter's end */
    PyDict_Clear(PyInterpreterState_Get()->sysdict_copy);
    PyGC_Collect();
    clear_entries();
    return 0;
}

/* That two equal names are one object is known of those in the image. Only a name that is made later is looked up here,
 * and then there are two: it is found by its hash. */
void forget_interned(int (*make_immortal)(PyObject *, void *))
{
    PyObject *interned = _Py_INTERP_CACHED_OBJECT(PyInterpreterState_Get(), interned_strings), *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(interned, &at, &name, &value))
        make_immortal(name, NULL); /* the dictionary's own references are not counted */
    PyDict_Clear(interned);
    _Py_hashtable_clear(_PyRuntime.cached_objects.interned_strings);
}

/* Zeros need no place in the zip. A free block begins with the address of the next one. */
void clear_free_blocks(void)
{
    struct _obmalloc_mgmt *of = &PyInterpreterState_Get()->obmalloc->mgmt;
    for (uint each = 0; each < of->maxarenas; each++) {
        struct arena_object *arena = &of->arenas[each];
        if (arena->address == 0)
            continue;
        char *pool = (char *)((arena->address + POOL_SIZE - 1) & -(uintptr_t)POOL_SIZE);
        for (; pool < (char *)arena->pool_address; pool += POOL_SIZE) {
            poolp head = (poolp)pool;
            size_t size = INDEX2SIZE(head->szidx);
            for (pymem_block *block = head->freeblock; block != NULL; block = *(pymem_block **)block)
                memset(block + sizeof block, 0, size - sizeof block);
            memset(pool + head->nextoffset, 0, POOL_SIZE - head->nextoffset);
        }
    }
}

/* Nothing is imported any more: what makes modules is not needed in the image (unused.py). */
void forget_initialisation(void)
{
    static struct _inittab nothing[1];
    _PyImport_Fini();
    for (struct _inittab *each = PyImport_Inittab; each->name != NULL; each++)
        each->initfunc = NULL;
    _PyRuntime.imports.inittab = nothing;
    PyObject *name, *module;
    for (Py_ssize_t at = 0; PyDict_Next(PyImport_GetModuleDict(), &at, &name, &module);) {
        PyModuleDef *made = PyModule_Check(module) ? PyModule_GetDef(module) : NULL;
        if (made != NULL) {
            made->m_base.m_init = NULL;
            for (PyModuleDef_Slot *slot = made->m_slots; slot != NULL && slot->slot != 0; slot++)
                slot->value = NULL;
            made->m_slots = NULL;
        }
    }
}
