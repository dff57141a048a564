/* What CPython's core refers to and nothing here calls: its compiler. The sidecar has only code that was compiled when
 * the layer was built. 0.6 MB. (cpython.py leaves out the members of the library that define these.) */
#define Py_BUILD_CORE
#define NEED_OPCODE_METADATA /* the interpreter's tables, which compile.c defines */
#include <Python.h>
#include <internal/pycore_opcode_metadata.h>

#define ABSENT(function)                                                                                               \
    void *function(void);                                                                                              \
    void *function(void)                                                                                               \
    {                                                                                                                  \
        PyErr_SetString(PyExc_SystemError, #function " is not in this executable");                                    \
        return NULL;                                                                                                   \
    }

ABSENT(PyAST_mod2obj)
ABSENT(PyAST_obj2mod)
ABSENT(_PyAST_Compile)
ABSENT(_PyCompile_AstOptimize)
ABSENT(_PyPegen_run_parser_from_file_pointer)
ABSENT(_PyPegen_run_parser_from_string)
ABSENT(_PyTokenizer_FindEncodingFilename)

int PyAST_Check(PyObject *);
int PyAST_Check(PyObject *object)
{
    (void)object;
    return 0;
}

int _PyAST_Validate(void *);
int _PyAST_Validate(void *module)
{
    (void)module;
    return 0;
}

int PyCompile_OpcodeStackEffect(int, int);
int PyCompile_OpcodeStackEffect(int instruction, int argument)
{
    (void)instruction, (void)argument;
    return PY_INVALID_STACK_EFFECT;
}

void _PyAST_Fini(void *);
void _PyAST_Fini(void *interpreter)
{
    (void)interpreter;
}

/* Private names in __slots__: the sidecar has none (`freeze.py` looks). */
PyObject *_Py_Mangle(PyObject *, PyObject *);
PyObject *_Py_Mangle(PyObject *class, PyObject *name)
{
    (void)class;
    return Py_NewRef(name);
}

PyTypeObject PySTEntry_Type = {PyVarObject_HEAD_INIT(NULL, 0) "symtable entry"};
PyTypeObject _PyInstructionSequence_Type = {PyVarObject_HEAD_INIT(NULL, 0) "instruction sequence"};
