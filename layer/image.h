/* Between main.c and image.c. */
#include <stddef.h>

/* Is this process the image, or the one that makes it? */
extern int is_image;

/* Before Python is initialised: all its memory is to be the room's. */
void use_room(void);

/* The modules of the image, from stdin (modules.c). Return -1 if they are not what is expected, or raise an exception. */
int read_modules(void);
int import_modules(void);

/* Write the data segments to stdout, and end (`--image`). Without it the program goes on, and has started slowly. */
void write_image(void);

/* Take what is this process's own: thread, clock, environment. Returns -1 with an exception set if there is no memory. */
int resume(void);
