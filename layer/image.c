/* The executable is an image of the interpreter after its start: everything is initialised and imported when the layer
 * is built, and the memory of that process is the data segment of the file. A cold start maps it and goes on: nothing
 * is parsed, unmarshalled or executed a second time. (GNU Emacs dumped itself so, in unexelf.c.)
 *
 * That needs three things. All memory that is allocated while it is made must be in the data segment: it comes from the
 * `room` below, and `image.py` makes each image twice, at other addresses of stack and heap, to see that nothing else is
 * pointed to. Nothing that belongs to a process may be kept: no thread, no descriptor, no clock of the kernel's. And
 * what libc sets up at its start it must set up again: musl's start does, for the main thread at the same address.
 */
#include <Python.h>
#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "image.h"

int is_image;

static PyThreadState *thread;

/* -- memory ------------------------------------------------------------------------------------------------------- */

enum { UNIT = 16, PAGE = 4096, LARGE = 512, RESERVED = 384 << 10, ROOM_SIZE = 8 << 20 };

struct block {
    size_t size; /* with this head; a multiple of UNIT */
    struct block *next; /* of those that are free */
};

extern char _end[]; /* of the data segment that the linker has made (end(3)) */

static char *room; /* begins there, and prolongs that segment */
static size_t used;
static struct block *free_blocks;
static PyObjectArenaAllocator of_process;

/* musl's own (src/malloc/lite_malloc.c), which ours are in the place of. The sidecar has one thread: no locks. */
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void __libc_free(void *);

static int in_room(const void *memory)
{
    return (uintptr_t)memory - (uintptr_t)room < used;
}

static void *take(size_t size, size_t alignment)
{
    size_t begin = (used + alignment - 1) & -alignment;
    if (begin + size > ROOM_SIZE) {
        dprintf(2, "the room of %d bytes is full: enlarge ROOM_SIZE\n", ROOM_SIZE);
        _exit(1);
    }
    used = begin + size;
    return room + begin;
}

/* The smallest free block that is large enough, or NULL. */
static struct block *take_free(size_t size)
{
    struct block **best = NULL, *block;
    for (struct block **at = &free_blocks; *at != NULL; at = &(*at)->next)
        if ((*at)->size >= size && (best == NULL || (*at)->size < (*best)->size))
            best = at;
    if (best == NULL)
        return NULL;
    block = *best;
    if (block->size - size >= 4 * UNIT) { /* the rest stays free */
        struct block *rest = (struct block *)((char *)block + size);
        *rest = (struct block){block->size - size, block->next};
        *best = rest;
        block->size = size;
    } else {
        *best = block->next;
    }
    return block;
}

/* One with its free neighbours. */
static void add_free(struct block *block)
{
    for (struct block **at = &free_blocks; *at != NULL;) {
        struct block *other = *at;
        if ((char *)other + other->size == (char *)block) {
            *at = other->next;
            other->size += block->size;
            block = other;
        } else if ((char *)block + block->size == (char *)other) {
            *at = other->next;
            block->size += other->size;
        } else {
            at = &other->next;
        }
    }
    block->next = free_blocks;
    free_blocks = block;
}

void *malloc(size_t wanted)
{
    if (room == NULL || wanted > ROOM_SIZE || (is_image && wanted < LARGE))
        return __libc_malloc(wanted);
    size_t size = (wanted + sizeof(struct block) + UNIT - 1) & -(size_t)UNIT;
    struct block *block = take_free(size);
    if (block == NULL && is_image)
        return __libc_malloc(wanted);
    if (block == NULL) {
        block = take(size, UNIT);
        block->size = size;
    }
    return block + 1;
}

/* Once this is an image, small blocks of the room stay as they are. */
void free(void *memory)
{
    if (!in_room(memory)) {
        __libc_free(memory);
        return;
    }
    struct block *block = (struct block *)memory - 1;
    if (!is_image)
        memset(memory, 0, block->size - sizeof *block); /* zeros need no place in the zip */
    if (!is_image || block->size >= LARGE)
        add_free(block);
}

void *calloc(size_t count, size_t each)
{
    size_t size;
    if (room == NULL || is_image || __builtin_mul_overflow(count, each, &size))
        return __libc_calloc(count, each); /* it knows which pages are new, and leaves these untouched */
    void *memory = malloc(size);
    return memory != NULL ? memset(memory, 0, size) : NULL;
}

void *realloc(void *memory, size_t size)
{
    if (memory != NULL && !in_room(memory))
        return __libc_realloc(memory, size);
    size_t had = memory != NULL ? ((struct block *)memory - 1)->size - sizeof(struct block) : 0;
    if (memory != NULL && size <= had && size >= had / 2)
        return memory;
    void *other = malloc(size);
    if (other == NULL)
        return size <= had ? memory : NULL;
    if (memory != NULL) {
        memcpy(other, memory, size < had ? size : had);
        free(memory);
    }
    return other;
}

/* What is free between other things is left alone, as looking at it is what costs. But there is a reserve: what is read
 * from /proc needs a block, and musl would give it back to the kernel each time. */
static void make_reserve(void)
{
    free_blocks = NULL;
    free(malloc(RESERVED));
}

/* Of pymalloc, and of the interpreter's frames. */
static void *take_arena(void *context, size_t size)
{
    return is_image ? of_process.alloc(context, size) : take((size + PAGE - 1) & -(size_t)PAGE, PAGE);
}

static void leave_arena(void *context, void *arena, size_t size)
{
    if (!in_room(arena))
        of_process.free(context, arena, size);
}

void use_room(void)
{
    room = (char *)(((uintptr_t)_end + PAGE - 1) & -(uintptr_t)PAGE);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (mmap(room, ROOM_SIZE, PROT_READ | PROT_WRITE, flags, -1, 0) != room) {
        dprintf(2, "no room after the data segment\n");
        _exit(1);
    }
    PyObject_GetArenaAllocator(&of_process);
    PyObjectArenaAllocator ours = {of_process.ctx, take_arena, leave_arena};
    PyObject_SetArenaAllocator(&ours);
}

/* -- the clock ---------------------------------------------------------------------------------------------------- */

/* Where the kernel has its own function for it (vdso(7)) is another place in each process. musl keeps the first answer,
 * so this takes the place of its src/time/clock_gettime.c. */
#ifdef __x86_64__
#define VDSO_CLOCK "LINUX_2.6", "__vdso_clock_gettime"
#else
#define VDSO_CLOCK "LINUX_2.6.39", "__kernel_clock_gettime"
#endif

void *__vdsosym(const char *, const char *);
static int (*of_kernel)(clockid_t, struct timespec *);

int __clock_gettime(clockid_t clock, struct timespec *now)
{
    return of_kernel != NULL && of_kernel(clock, now) == 0 ? 0 : syscall(SYS_clock_gettime, clock, now);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    return __clock_gettime(clock, now);
}

/* -- making an image ---------------------------------------------------------------------------------------------- */

/* What is counted is written: each page with an object that is looked at would be copied. All that is here now stays
 * to the end, so it need not be counted (PEP 683). */
static int make_immortal(PyObject *object, void *unused)
{
    (void)unused;
    if (_Py_IsImmortal(object))
        return 0;
    object->ob_refcnt = _Py_IMMORTAL_REFCNT;
    if (PyCode_Check(object)) { /* the collector does not look into code */
        PyCodeObject *code = (PyCodeObject *)object;
        PyObject *parts[] = {code->co_consts,          code->co_names,    code->co_exceptiontable,
                             code->co_localsplusnames, code->co_filename, code->co_localspluskinds,
                             code->co_name,            code->co_qualname, code->co_linetable};
        for (size_t at = 0; at < sizeof parts / sizeof *parts; at++)
            make_immortal(parts[at], NULL);
    }
    traverseproc traverse = Py_TYPE(object)->tp_traverse;
    return traverse != NULL ? traverse(object, make_immortal, NULL) : 0;
}

static int visit(PyObject *object, void *unused)
{
    make_immortal(object, unused);
    return 1; /* go on */
}

extern const Elf64_Ehdr __ehdr_start;

void write_image(char *names)
{
    if (is_image)
        _exit(1); /* of an image there is none */
    if (take_out_unnamed(names) < 0) {
        PyErr_Print();
        _exit(1);
    }
    PyUnstable_GC_VisitObjects(visit, NULL);
    forget_interned(make_immortal);
    clear_free_blocks();
    thread = PyEval_SaveThread();
    make_reserve();
    is_image = 1;
    const Elf64_Phdr *segment = (const Elf64_Phdr *)((const char *)&__ehdr_start + __ehdr_start.e_phoff);
    for (int left = __ehdr_start.e_phnum; left > 0; left--, segment++) {
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_W))
            continue;
        const char *at = (const char *)segment->p_vaddr, *end = at + segment->p_memsz;
        if (end == _end)
            end = room + used;
        while (at < end) {
            ssize_t written = write(1, at, end - at);
            if (written <= 0)
                _exit(1);
            at += written;
        }
    }
    _exit(0);
}

/* -- while it runs ------------------------------------------------------------------------------------------------- */

/* Code and constants that have run once, as at the start, need not stay mapped: they are the file's, and come again when
 * they are needed, 64 KiB at once. (The kernel would tell which pages of the image are the file's still, but not where
 * another one runs this as its own guest: and a page that was written to must stay.) */
static PyObject *unmap(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    const uintptr_t page = sysconf(_SC_PAGESIZE);
    const Elf64_Phdr *segment = (const Elf64_Phdr *)((const char *)&__ehdr_start + __ehdr_start.e_phoff);
    for (int left = __ehdr_start.e_phnum; left > 0; left--, segment++) {
        uintptr_t begin = (segment->p_vaddr + page - 1) & -page;
        uintptr_t end = (segment->p_vaddr + segment->p_memsz) & -page;
        if (segment->p_type == PT_LOAD && !(segment->p_flags & PF_W) && begin < end)
            (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
    }
    Py_RETURN_NONE;
}

static PyMethodDef of_image[] = {{"unmap", unmap, METH_NOARGS, NULL}, {0}};
static PyModuleDef image_module = {PyModuleDef_HEAD_INIT, "_image", NULL, -1, of_image, NULL, NULL, NULL, NULL};

PyObject *PyInit__image(void)
{
    return PyModule_Create(&image_module);
}

/* -- going on as an image ----------------------------------------------------------------------------------------- */

static int take_environment(PyObject *names)
{
    PyDict_Clear(names);
    for (char **each = environ; *each != NULL; each++) {
        const char *equals = strchr(*each, '=');
        PyObject *name = equals != NULL ? PyBytes_FromStringAndSize(*each, equals - *each) : NULL;
        PyObject *value = name != NULL ? PyBytes_FromString(equals + 1) : NULL;
        if (value != NULL)
            (void)PyDict_SetDefault(names, name, value); /* the first counts, as in getenv(3) */
        Py_XDECREF(name);
        Py_XDECREF(value);
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

int resume(void)
{
    of_kernel = (int (*)(clockid_t, struct timespec *))__vdsosym(VDSO_CLOCK);
    if (is_image)
        PyEval_RestoreThread(thread);
    PyObject *posix = PyImport_ImportModule("posix");
    PyObject *names = posix != NULL ? PyObject_GetAttrString(posix, "environ") : NULL;
    return names != NULL ? take_environment(names) : -1;
}
