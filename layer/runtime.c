/* What mypyc's runtime has for shared libraries, and is less where modules are built in. */
#include <Python.h>
#include "CPy.h"
#include <internal/pycore_frame.h>

int CPyGlobalsInit(void);

/* What the initialisation of its shared library would do. The modules look for that library's path. */
int start_compiled(void)
{
    PyObject *library = PyImport_AddModule("spine__mypyc");
    if (library == NULL || PyModule_AddStringConstant(library, "__file__", "") < 0)
        return -1;
    return intern_strings() < 0 ? -1 : CPyGlobalsInit();
}

/* A module of the group imports another: as any other built-in module. */
PyObject *CPyImport_ImportNative(PyObject *name, PyObject *(*create)(void), int (*execute)(PyObject *),
                                 CPyModule **module, CPyModuleCache *cache, CPyImportState *state,
                                 CPyModuleLockAPI *locks, PyObject *file, PyObject *suffix, Py_ssize_t is_package)
{
    (void)create, (void)execute, (void)module, (void)state, (void)locks, (void)file, (void)suffix, (void)is_package;
    PyObject *imported = PyImport_Import(name);
    if (imported != NULL)
        *cache = (CPyModuleCache)Py_NewRef(imported);
    return imported;
}

int CPyImport_SetDunderAttrs(PyObject *module, PyObject *name, PyObject *file, PyObject *suffix, Py_ssize_t is_package)
{
    (void)module, (void)name, (void)file, (void)suffix, (void)is_package;
    return 0;
}

PyObject *CPyImport_BeginInitializing(PyObject *module)
{
    return Py_NewRef(module);
}

int CPyImport_EndInitializing(PyObject *module)
{
    Py_DECREF(module);
    return 0;
}

/* mypyc's own raises SystemError where the end is before the beginning: to Python that is nothing. */
PyObject *CPyBytes_GetSlice(PyObject *text, CPyTagged begin, CPyTagged end)
{
    if (!PyBytes_Check(text) || !CPyTagged_CheckShort(begin) || !CPyTagged_CheckShort(end))
        return CPyObject_GetSlice(text, begin, end);
    Py_ssize_t from = CPyTagged_ShortAsSsize_t(begin), to = CPyTagged_ShortAsSsize_t(end);
    Py_ssize_t size = PySlice_AdjustIndices(PyBytes_GET_SIZE(text), &from, &to, 1);
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(text) + from, size);
}

/* Only where it was raised: the log names that place, and the frames above it cost more than the work. */
void CPy_Raised(const char *function, PyObject *globals)
{
    PyObject *error = PyErr_GetRaisedException();
    if (error == NULL)
        return;
    PyObject *trace = PyException_GetTraceback(error);
    PyCodeObject *code = trace == NULL ? PyCode_NewEmpty("", function, 0) : NULL;
    PyFrameObject *frame = code != NULL ? PyFrame_New(PyThreadState_Get(), code, globals, NULL) : NULL;
    if (frame == NULL)
        PyErr_Clear();
    PyErr_SetRaisedException(error);
    if (frame != NULL)
        PyTraceBack_Here(frame);
    Py_XDECREF(trace);
    Py_XDECREF(code);
    Py_XDECREF(frame);
}

void CPy_RaisedType(const char *function, PyObject *globals, const char *wanted, PyObject *value)
{
    CPy_TypeError(wanted, value);
    CPy_Raised(function, globals);
}

void CPy_RaisedAttribute(const char *function, PyObject *globals, const char *owner, const char *name)
{
    PyErr_Format(PyExc_AttributeError, "attribute '%.200s' of '%.200s' undefined", name, owner);
    CPy_Raised(function, globals);
}
