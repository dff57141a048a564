// What the files of the module share.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

inline bool repaired() {
    static const bool on = getenv("REPAIRED") && !strcmp(getenv("REPAIRED"), "1");
    return on;
}
__attribute__((noinline)) long fill(char *at, size_t size, long n);  // writes all of it

// catalog.cpp
long stat_cache(long n);
long file_cache(long n);
long thread_cache(long n);
long array_entries(long n);
long interned_names(long n);
long node_pool(long n);
// network.cpp
long session_cycle(long n);
long listeners(long n);
long response_queue(long n);
long tls_block(long n);
long base_delete(long n);
// native.cpp
long invoice_buffer(long n);
long error_path(long n);
long shader_map(long n);
long scan_map(long n);
long strdup_names(long n);
long thrown_rows(long n);
