// The Python module: its functions, three of them with objects of Python.
#include "shop.hpp"

// ros/geometry2#251, eclipse-ecal/ecal#1754: SetItem does not take the reference
static PyObject *row_refs(PyObject *, PyObject *args) {
    long n;
    if (!PyArg_ParseTuple(args, "l", &n)) return nullptr;
    PyObject *row = PyDict_New();
    for (int i = 0; i < 40; i++) {
        char key[24];
        snprintf(key, sizeof key, "field%d", i);
        PyObject *value = PyUnicode_FromFormat("order %ld, value %d of the row", n, i);  // LEAK row_refs
        PyDict_SetItemString(row, key, value);  // LEAK row_refs
        if (repaired()) Py_DECREF(value);
    }
    return row;
}

// NVIDIA/DALI#6320: one more reference than the caller gives back
static PyObject *attr_refs(PyObject *, PyObject *args) {
    long n;
    if (!PyArg_ParseTuple(args, "l", &n)) return nullptr;
    PyObject *data = PyBytes_FromStringAndSize(nullptr, 26000);  // LEAK attr_refs
    fill(PyBytes_AS_STRING(data), 26000, n);
    if (!repaired()) Py_INCREF(data);  // LEAK attr_refs
    return data;
}

// no report: the view of a buffer is never released
static PyObject *buffer_view(PyObject *, PyObject *args) {
    PyObject *data;
    Py_buffer view;
    if (!PyArg_ParseTuple(args, "O", &data)) return nullptr;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) return nullptr;  // LEAK buffer_view
    long sum = 0;
    for (Py_ssize_t i = 0; i < view.len; i++) sum += ((unsigned char *)view.buf)[i];
    if (repaired()) PyBuffer_Release(&view);
    return PyLong_FromLong(sum);
}

// Beside: a bounded table, and work that allocates and frees.
static PyObject *ordinary(PyObject *, PyObject *args) {
    long n;
    if (!PyArg_ParseTuple(args, "l", &n)) return nullptr;
    static std::map<long, std::vector<char>> table;
    auto &entry = table[n % 24];
    if (entry.empty()) entry.resize(2000);
    std::vector<std::string> words;
    for (int i = 0; i < 200; i++) words.push_back("word number " + std::to_string(n * i));
    return PyLong_FromSize_t(words.size() + table.size());
}

template <long (*function)(long)> static PyObject *call(PyObject *, PyObject *args) {
    long n;
    if (!PyArg_ParseTuple(args, "l", &n)) return nullptr;
    return PyLong_FromLong(function(n));
}

#define PLAIN(name) {#name, call<name>, METH_VARARGS, nullptr}
static PyMethodDef methods[] = {
    {"ordinary", ordinary, METH_VARARGS, nullptr}, {"row_refs", row_refs, METH_VARARGS, nullptr},
    {"attr_refs", attr_refs, METH_VARARGS, nullptr}, {"buffer_view", buffer_view, METH_VARARGS, nullptr},
    PLAIN(stat_cache), PLAIN(file_cache), PLAIN(thread_cache), PLAIN(array_entries), PLAIN(interned_names),
    PLAIN(node_pool), PLAIN(session_cycle), PLAIN(listeners), PLAIN(response_queue), PLAIN(tls_block),
    PLAIN(base_delete), PLAIN(invoice_buffer), PLAIN(error_path), PLAIN(shader_map), PLAIN(scan_map),
    PLAIN(strdup_names), PLAIN(thrown_rows), {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "shopcore", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_shopcore() { return PyModule_Create(&definition); }
