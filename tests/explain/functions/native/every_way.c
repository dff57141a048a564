/* Asks for memory in each way that there is, gives back half of it, says how much is left, and waits. Of what is mapped
   only what is touched is in memory. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

static char *mapped(size_t pages) {
    return mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(void) {
    size_t left = 0;
    for (int round = 0; round < 200; round++) {
        void *all[] = {
            malloc(1000),          calloc(10, 100),        realloc(malloc(50), 3000), reallocarray(NULL, 30, 40),
            memalign(64, 700),     aligned_alloc(64, 640), valloc(900),               pvalloc(4000),
            strdup("a long name"), NULL,
        };
        if (posix_memalign(&all[9], 128, 500) != 0) return 1;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            if (round % 2) free(all[i]);
            else left += malloc_usable_size(all[i]) + sizeof(size_t);
        char *rare = mapped(5), *moved = mremap(mapped(1), PAGE, 2 * PAGE, MREMAP_MAYMOVE);
        memset(rare, 1, 2 * PAGE);
        memset(moved, 1, PAGE);
        if (round % 2) {
            munmap(rare, 5 * PAGE);
            munmap(moved, 2 * PAGE);
        } else left += 3 * PAGE;
    }
    printf("%zu\n", left);
    fflush(stdout);
    pause();
}
