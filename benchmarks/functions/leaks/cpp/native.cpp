// Plain memory: new[], malloc, mmap.
#include "shop.hpp"
#include <stdexcept>
#include <sys/mman.h>

__attribute__((noinline)) long fill(char *at, size_t size, long n) {
    for (size_t i = 0; i < size; i++) at[i] = (char)(n + i);
    return size;
}

// SarahWeiii/CoACD#75: an early return before delete[]
long invoice_buffer(long n) {
    double *prices = new double[2200];  // LEAK invoice_buffer
    long size = fill((char *)prices, 2200 * sizeof(double), n);
    if (n % 3) {
        if (repaired()) delete[] prices;
        return size;  // LEAK invoice_buffer
    }
    delete[] prices;
    return 0;
}

// irods/irods#3715: free is missing where the parse fails
static int parse(const char *text, long n) { return text[0] == (char)n && n % 2 ? -1 : 0; }

long error_path(long n) {
    char *work = (char *)malloc(12000);  // LEAK error_path
    fill(work, 12000, n);
    int status = parse(work, n);
    if (status < 0) {
        if (repaired()) free(work);
        return status;  // LEAK error_path
    }
    free(work);
    return status;
}

// jameshegarty/darkroom#2, canonical/ubuntu-frame#213: mmap without munmap
long shader_map(long n) {
    size_t size = 32768;
    void *at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);  // LEAK shader_map
    if (at == MAP_FAILED) return -1;
    fill((char *)at, size, n);
    if (repaired()) munmap(at, size);
    return n;
}

// util-linux/util-linux#3857: the loop ends early, the mapping stays
static bool scan(char *at, size_t size, long n) { return fill(at, size, n) && n % 2 == 0; }

long scan_map(long n) {
    for (int part = 0; part < 2; part++) {
        size_t size = 16384;
        char *at = (char *)mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);  // LEAK scan_map
        if (at == MAP_FAILED) return -1;
        if (!scan(at, size, n)) {
            if (repaired()) munmap(at, size);
            return part;  // LEAK scan_map
        }
        munmap(at, size);
    }
    return 2;
}

// no report: strdup in a helper of which one caller frees
static char *clean(const std::string &name) {
    return strdup(("clean " + name).c_str());  // LEAK strdup_names
}

long strdup_names(long n) {
    char *shop = clean("the shop");
    long sum = strlen(shop);
    free(shop);
    for (int i = 0; i < 12; i++) {
        char *name = clean(std::string(90, 'a' + n % 26) + std::to_string(i));  // LEAK strdup_names
        sum += strlen(name);
        if (repaired()) free(name);
    }
    return sum;
}

// no report: an exception passes the delete
static long total(const long *rows, long n) {
    if (n % 4) throw std::invalid_argument("currency");
    return rows[0];
}

long thrown_rows(long n) {
    long *rows = nullptr;
    try {
        rows = new long[3000];  // LEAK thrown_rows
        fill((char *)rows, 3000 * sizeof(long), n);
        long sum = total(rows, n);
        delete[] rows;
        return sum;
    } catch (const std::invalid_argument &) {
        if (repaired()) delete[] rows;
        return -1;  // LEAK thrown_rows
    }
}
