/* A library that a handler in Python loads: what keep() asks for stays. */
#include <stdlib.h>
#include <string.h>

static void *volatile last;

void keep(void) {
    void *new = malloc(8000); /* keep */
    last = memset(new, 1, 8000);
}

void drop(void) {
    keep();
    free(last);
}
