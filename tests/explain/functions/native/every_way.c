/* Asks for memory in each way that there is, gives back half of it, says how much is left, and waits. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    }
    printf("%zu\n", left);
    fflush(stdout);
    pause();
}
