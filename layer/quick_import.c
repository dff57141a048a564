/* Imports of our own frozen modules without importlib: no finders, no specs, no locks. There is one thread, and the
 * path of each module is known. 1.5 ms of each cold start.
 *
 * import_find_and_load() in CPython's import.c calls `_find_and_load` of importlib._bootstrap by name: that is what is
 * replaced. Whatever is not ours goes to the original.
 */
#include <Python.h>
#include <marshal.h>
#include <string.h>

static const char package[] = "truemem";

static PyObject *original;

static const struct _frozen *ours(const char *name)
{
    if (strncmp(name, package, sizeof package - 1) != 0)
        return NULL;
    for (const struct _frozen *entry = PyImport_FrozenModules; entry->name != NULL; entry++)
        if (strcmp(entry->name, name) == 0)
            return entry;
    return NULL;
}

static int execute(const struct _frozen *entry, PyObject *module)
{
    PyObject *names = PyModule_GetDict(module);
    const char *child = strrchr(entry->name, '.');
    size_t length = entry->is_package || child == NULL ? strlen(entry->name) : (size_t)(child - entry->name);
    PyObject *its_package = PyUnicode_FromStringAndSize(entry->name, length);
    PyObject *path = entry->is_package ? PyList_New(0) : NULL;
    PyObject *code = PyMarshal_ReadObjectFromString((const char *)entry->code, entry->size);
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

static PyMethodDef definition = {"_find_and_load", find_and_load, METH_VARARGS, NULL};

int install_quick_import(void)
{
    PyObject *bootstrap = PyImport_ImportModule("_frozen_importlib");
    original = bootstrap != NULL ? PyObject_GetAttrString(bootstrap, definition.ml_name) : NULL;
    PyObject *replacement = original != NULL ? PyCFunction_New(&definition, NULL) : NULL;
    int result = replacement != NULL ? PyObject_SetAttrString(bootstrap, definition.ml_name, replacement) : -1;
    Py_XDECREF(bootstrap);
    Py_XDECREF(replacement);
    return result;
}
