/* Draws a frame for each event, in shared memory that is mapped. */
#include "runtime.h"
#include <sys/mman.h>

enum { FRAME = 96 * 1024 };

static void handler(const char *event) {
    int file = memfd_create("frame", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, FRAME) != 0) exit(1);
    char *frame = mmap(NULL, FRAME, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (frame == MAP_FAILED) exit(1);
    memset(frame, event[0], FRAME);
    munmap(frame, FRAME);
}
