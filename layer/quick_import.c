/* Imports of our own frozen modules without importlib: no finders, no specs, no locks. There is one thread, and the
 * path of each module is known. 1.5 ms of each cold start. What start needs comes from one block of code (freeze.py).
 *
 * import.c of CPython calls `_find_and_load` of importlib._bootstrap by name, and `_handle_fromlist` for names that are
 * imported from a package: those are replaced. Whatever is not ours goes to the originals. The second one must not run
 * for ours: where there is no memory left, CPython 3.13 may stay for ever in the handler of an exception that passes
 * through it (ceval.c, exception_unwind: no room for the number of the instruction, so it is handled again).
 */
#include <Python.h>
#include <marshal.h>
#include <string.h>

static const char package[] = "truemem";

/* freeze.py: {name: code} of the modules that start needs, a block a room. In the table of modules such a one has no
 * code, and its block's number for a size. */
extern struct start_block {
    const unsigned char *content;
    long size;
    PyObject *codes;
} start_blocks[];

static PyObject *original, *original_names;

static const struct _frozen *ours(const char *name)
{
    if (strncmp(name, package, sizeof package - 1) != 0)
        return NULL;
    for (const struct _frozen *entry = PyImport_FrozenModules; entry->name != NULL; entry++)
        if (strcmp(entry->name, name) == 0)
            return entry;
    return NULL;
}

/* Each module's code once: it is not kept when the module has been executed. */
static PyObject *from_block(const struct _frozen *entry)
{
    struct start_block *block = &start_blocks[entry->size];
    PyObject *code = NULL;
    if (block->codes != NULL && PyDict_PopString(block->codes, entry->name, &code) != 0)
        return code;
    /* Not read yet; or this module has failed before, and is wanted again. */
    Py_XSETREF(block->codes, PyMarshal_ReadObjectFromString((const char *)block->content, block->size));
    if (block->codes != NULL && PyDict_PopString(block->codes, entry->name, &code) == 0)
        PyErr_SetString(PyExc_ImportError, entry->name);
    return code;
}

static int execute(const struct _frozen *entry, PyObject *module)
{
    PyObject *names = PyModule_GetDict(module);
    const char *child = strrchr(entry->name, '.');
    size_t length = entry->is_package || child == NULL ? strlen(entry->name) : (size_t)(child - entry->name);
    PyObject *its_package = PyUnicode_FromStringAndSize(entry->name, length);
    PyObject *path = entry->is_package ? PyList_New(0) : NULL;
    PyObject *code = entry->code == NULL
                         ? from_block(entry)
                         : PyMarshal_ReadObjectFromString((const char *)entry->code, entry->size);
    int failed = its_package == NULL || code == NULL || (entry->is_package && path == NULL) ||
                 PyDict_SetItemString(names, "__package__", its_package) < 0 ||
                 PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) < 0 ||
                 (path != NULL && PyDict_SetItemString(names, "__path__", path) < 0);
    PyObject *result = failed ? NULL : PyEval_EvalCode(code, names, names);
    Py_XDECREF(its_package);
    Py_XDECREF(path);
    Py_XDECREF(code);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

static PyObject *find_and_load(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyObject *name = PyTuple_GET_SIZE(arguments) > 0 ? PyTuple_GET_ITEM(arguments, 0) : NULL;
    const char *text = name != NULL ? PyUnicode_AsUTF8(name) : NULL;
    const struct _frozen *entry = text != NULL ? ours(text) : NULL;
    if (entry == NULL) {
        PyErr_Clear();
        return PyObject_CallObject(original, arguments);
    }
    const char *child = strrchr(text, '.');
    PyObject *above = child != NULL ? PyUnicode_FromStringAndSize(text, child - text) : NULL;
    PyObject *parent = above != NULL ? PyImport_GetModule(above) : NULL; /* an import costs more, even of what is there */
    if (above != NULL && parent == NULL && !PyErr_Occurred())
        parent = PyImport_Import(above);
    Py_XDECREF(above);
    if (child != NULL && parent == NULL)
        return NULL;
    PyObject *module = PyImport_AddModuleRef(text);
    if (module != NULL && execute(entry, module) < 0) {
        PyObject *error = PyErr_GetRaisedException();
        PyDict_DelItem(PyImport_GetModuleDict(), name); /* half a module must not be found the next time */
        PyErr_Clear();
        PyErr_SetRaisedException(error);
        Py_CLEAR(module);
    }
    if (module != NULL && parent != NULL && PyObject_SetAttrString(parent, child + 1, module) < 0)
        Py_CLEAR(module);
    Py_XDECREF(parent);
    return module;
}

/* `from PACKAGE import NAME, ...`: NAME may be a module that is not loaded yet. */
static PyObject *handle_fromlist(PyObject *self, PyObject *arguments)
{
    PyObject *module = PyTuple_GET_ITEM(arguments, 0), *names = PyTuple_GET_ITEM(arguments, 1);
    const char *text = PyModule_Check(module) ? PyModule_GetName(module) : NULL;
    if (text == NULL || ours(text) == NULL || !PyTuple_Check(names)) {
        PyErr_Clear();
        return PyObject_CallObject(original_names, arguments);
    }
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(names); at++) {
        PyObject *name = PyTuple_GET_ITEM(names, at), *known = NULL;
        if (PyObject_GetOptionalAttr(module, name, &known) < 0)
            return NULL;
        if (known == NULL) {
            PyObject *full = PyUnicode_FromFormat("%s.%U", text, name);
            PyObject *wanted = full != NULL ? PyTuple_Pack(1, full) : NULL;
            known = wanted != NULL ? find_and_load(self, wanted) : NULL;
            Py_XDECREF(full);
            Py_XDECREF(wanted);
            if (known == NULL)
                return NULL;
        }
        Py_DECREF(known);
    }
    return Py_NewRef(module);
}

static PyMethodDef definitions[] = {{"_find_and_load", find_and_load, METH_VARARGS, NULL},
                                    {"_handle_fromlist", handle_fromlist, METH_VARARGS, NULL}};

int install_quick_import(void)
{
    PyObject *bootstrap = PyImport_ImportModule("_frozen_importlib");
    PyObject **originals[] = {&original, &original_names};
    int result = bootstrap != NULL ? 0 : -1;
    for (int at = 0; at < 2 && result == 0; at++) {
        *originals[at] = PyObject_GetAttrString(bootstrap, definitions[at].ml_name);
        PyObject *replacement = *originals[at] != NULL ? PyCFunction_New(&definitions[at], NULL) : NULL;
        result = replacement != NULL ? PyObject_SetAttrString(bootstrap, definitions[at].ml_name, replacement) : -1;
        Py_XDECREF(replacement);
    }
    Py_XDECREF(bootstrap);
    return result;
}
