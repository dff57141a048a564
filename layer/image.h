/* Between main.c and image.c. */
#include <Python.h>
#include <stddef.h>

/* Is this process the image, or the one that makes it? */
extern int is_image;

/* Before Python is initialised: all its memory is to be the room's. */
void use_room(void);

/* The modules of the image, from stdin (modules.c). Return -1 if they are not what is expected, or raise an exception. */
int read_modules(void);
int import_modules(void);

/* While it is made (unused.c): keep what has one of these names, which are sorted, with spaces between them. Returns
 * -1, perhaps with an exception set. */
int take_out_unnamed(char *names);
void forget_interned(int (*make_immortal)(PyObject *, void *));
void clear_free_blocks(void);
void forget_initialisation(void);

/* Write the data segments to stdout, and end (`--image NAMES`). Without it the program goes on, and has started slowly. */
void write_image(char *names);

/* Take what is this process's own: thread, clock, environment. Returns -1 with an exception set if there is no memory. */
int resume(void);
