// A library of the user's own below Python: what it keeps, and what it makes for Python.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
void *PyBytes_FromStringAndSize(const char *, long);  // of the interpreter that has loaded it

void cache() {
    static std::vector<std::string> kept;
    kept.emplace_back(6000, 'a');  // cache
}

int reference() {
    return PyBytes_FromStringAndSize(nullptr, 6000) == nullptr;  // reference
}

static void *volatile last;

void entry(int keep) {
    char *made = static_cast<char *>(malloc(6000));  // entry
    last = memset(made, 1, 6000);
    if (!keep) free(made);
}

void *given() { return PyBytes_FromStringAndSize(nullptr, 6000); }
}
