/* Samples what malloc gives out, and keeps a table of the samples that are live: preloaded into the function's process.
 *
 * One sample for each `period` bytes in the mean, at places of a Poisson process: an allocation of `size` bytes is sampled
 * with the chance 1 - exp(-size / period), and counts as size over that chance (as tcmalloc does). After many samples the
 * period doubles, so that their time has a limit; each has the one it was drawn with. The table is a file
 * that is mapped and shared: whoever looks reads it while nothing runs. Nothing is asked of the process, and what was
 * known of one that was killed stays.
 *
 * What a program maps itself is sampled in the same way, by its length: what of it is in memory is for the reader to see.
 * malloc and the threads' stacks do not come by here, as glibc calls its own mmap.
 *
 * Each program has a file of its own; after a fork the child has one too, from its first sample on. What malloc gives out
 * inside of ours, or of the unwinder's, is not sampled.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#define EXPORT __attribute__((visibility("default")))
#define OWN_THREAD static __thread __attribute__((tls_model("initial-exec")))

/* The file, as native_samples.py reads it. All numbers have 8 bytes. */
enum {
    MAGIC = 0x32534d54, /* TMS2 */
    SLOTS = 1 << 17,    /* of live samples */
    STACKS = 1 << 15,   /* of the index of stacks */
    FRAMES = 48,        /* of a stack, the innermost ones */
    ROOM = 1 << 20,     /* numbers of all stacks: the number of frames of each, then its addresses */
    MANY = 1 << 19,     /* samples, after which the period doubles: one takes some 2 us */
    FILTER = 1 << 18,   /* counters, by address: most frees are of nothing that was sampled */
};
static const uint32_t MAPPED = UINT32_MAX; /* in the place of `unasked` */
struct slot {
    uint64_t address, size; /* what malloc has taken for it, its own word included */
    uint32_t stack, unasked; /* place of its stack; bytes of the size that were not asked for */
    uint64_t period;
};
struct table {
    uint64_t magic, pid, lost, used, end, no_unwinder, slots, unused;
    struct slot slot[SLOTS];
    uint64_t room[ROOM];
};
static struct table *table;
static uint32_t index_of_stacks[STACKS];
static uint8_t filter[FILTER]; /* 255: not known any more, and not counted */
static const char *folder;
static uint64_t period, samples; /* so many were taken */
static int lock;
static int is_on;

OWN_THREAD int inside, is_seeded;
OWN_THREAD int64_t left; /* bytes up to the next sample */
OWN_THREAD uint64_t seed, own_period; /* by which the next sample was drawn */

static void *(*next_malloc)(size_t), *(*next_calloc)(size_t, size_t), *(*next_realloc)(void *, size_t);
static void *(*next_memalign)(size_t, size_t), *(*next_aligned_alloc)(size_t, size_t);
static void *(*next_valloc)(size_t), *(*next_pvalloc)(size_t);
static int (*next_posix_memalign)(void **, size_t, size_t);
static void (*next_free)(void *);
static size_t (*size_of)(void *);
static _Unwind_Reason_Code (*unwind)(_Unwind_Trace_Fn, void *);
static _Unwind_Word (*register_of)(struct _Unwind_Context *, int);
static _Unwind_Ptr (*ip_of)(struct _Unwind_Context *);

/* For dlsym(3) of an old glibc, which asks for memory before it has found malloc. */
static char before[4096] __attribute__((aligned(16)));
static size_t before_used;

static void *early(size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (size > sizeof before - before_used)
        return NULL;
    before_used += size;
    return before + before_used - size;
}

static int is_early(const void *p) { return (const char *)p >= before && (const char *)p < before + sizeof before; }

static void find(void)
{
    if (next_free)
        return;
    inside++;
    next_calloc = dlsym(RTLD_NEXT, "calloc");
    next_malloc = dlsym(RTLD_NEXT, "malloc");
    next_realloc = dlsym(RTLD_NEXT, "realloc");
    next_memalign = dlsym(RTLD_NEXT, "memalign");
    next_aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
    next_posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
    next_valloc = dlsym(RTLD_NEXT, "valloc");
    next_pvalloc = dlsym(RTLD_NEXT, "pvalloc");
    size_of = dlsym(RTLD_NEXT, "malloc_usable_size");
    next_free = dlsym(RTLD_NEXT, "free");
    inside--;
}

static void hold(void)
{
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void let_go(void) { __atomic_store_n(&lock, 0, __ATOMIC_RELEASE); }

/* --- which allocation is sampled ---------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* -log of a number in (0, 1] that is drawn, without libm: the exponent's, and of the fraction a series of atanh. */
static double drawn(void)
{
    seed += 0x9e3779b97f4a7c15u;
    double u = ((mixed(seed) >> 11) + 1) * 0x1p-53, log = 0;
    while (u < 0.5) {
        u *= 2;
        log += 0.69314718055994531;
    }
    double z = (1 - u) / (1 + u), square = z * z;
    return log + 2 * z * (1 + square * (1. / 3 + square * (1. / 5 + square * (1. / 7 + square * (1. / 9)))));
}

static void draw(void)
{
    own_period = __atomic_load_n(&period, __ATOMIC_RELAXED);
    left = (int64_t)(drawn() * (double)own_period);
}

static int is_sampled(size_t size)
{
    left -= (int64_t)size;
    if (__builtin_expect(left >= 0, 1))
        return 0;
    if (!is_seeded) { /* a new thread: the distance to its first sample is drawn now */
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        seed = mixed((uintptr_t)&left) ^ mixed((uint64_t)now.tv_nsec << 20 ^ (uint64_t)now.tv_sec ^ (uint64_t)getpid());
        is_seeded = 1;
        draw();
        left -= (int64_t)size;
        if (left >= 0)
            return 0;
    }
    return 1;
}

/* --- its stack ---------------------------------------------------------------------------------------------------- */

struct stack {
    int count;
    uint64_t frame_pointer;
    uint64_t frames[FRAMES];
};

#ifdef __x86_64__
enum { FRAME_POINTER = 6 };
#else
enum { FRAME_POINTER = 29 };
#endif

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *of)
{
    struct stack *stack = of;
    uint64_t ip = ip_of(context);
    if (!ip || stack->count == FRAMES)
        return _URC_END_OF_STACK;
    stack->frames[stack->count++] = ip;
    stack->frame_pointer = register_of(context, FRAME_POINTER);
    return _URC_NO_REASON;
}

/* Go has no tables for the unwinder, which ends where Go calls C, on another stack: but frame pointers, and the last one
 * still points to the goroutine's frames. Of other code it may be any number: each is read by the kernel, which refuses
 * what is not memory, and what is not code is left out when the stack is read. */
static void follow_frame_pointers(struct stack *stack)
{
    uint64_t at = stack->frame_pointer, pair[2];
    while (at && at % 8 == 0 && stack->count < FRAMES) {
        struct iovec here = {pair, sizeof pair}, there = {(void *)at, sizeof pair};
        if (syscall(SYS_process_vm_readv, (long)getpid(), &here, 1L, &there, 1L, 0L) != sizeof pair || pair[1] < 4096)
            return;
        stack->frames[stack->count++] = pair[1];
        if (pair[0] <= at)
            return;
        at = pair[0];
    }
}

/* Its place in the room. 0: there is no more. Under the lock. */
static uint32_t noted(const struct stack *stack)
{
    uint64_t hash = (uint64_t)stack->count;
    for (int i = 0; i < stack->count; i++)
        hash = mixed(hash ^ stack->frames[i]);
    for (uint64_t i = hash % STACKS, tried = 0; tried < 64; tried++, i = (i + 1) % STACKS) {
        uint64_t *known = table->room + index_of_stacks[i];
        if (!index_of_stacks[i]) {
            if (table->end + (uint64_t)stack->count + 1 > ROOM)
                return 0;
            index_of_stacks[i] = (uint32_t)table->end;
            known = table->room + table->end;
            memcpy(known + 1, stack->frames, (size_t)stack->count * sizeof *known);
            known[0] = (uint64_t)stack->count;
            table->end += (uint64_t)stack->count + 1;
            return index_of_stacks[i];
        }
        if (known[0] == (uint64_t)stack->count && !memcmp(known + 1, stack->frames, (size_t)stack->count * sizeof *known))
            return index_of_stacks[i];
    }
    return 0;
}

/* --- the table of live samples ------------------------------------------------------------------------------------ */

/* Make the file of this process. It is sparse: what is not used takes no room. Under the lock, or alone. */
static void begin(void)
{
    char path[512];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(path, sizeof path, "%s/samples-%d-%lld%09ld", folder, (int)getpid(), (long long)now.tv_sec, now.tv_nsec);
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    void *at = MAP_FAILED;
    if (file >= 0 && ftruncate(file, sizeof *table) == 0)
        at = (void *)syscall(SYS_mmap, NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0L);
    if (file >= 0)
        close(file);
    if (at == MAP_FAILED) {
        is_on = 0;
        return;
    }
    table = at;
    table->pid = (uint64_t)getpid();
    table->end = 1; /* a stack at 0 is one that is not known */
    table->slots = SLOTS;
    table->no_unwinder = !unwind;
    table->magic = MAGIC;
}

static uint64_t place_of(const void *p) { return mixed((uint64_t)p) % SLOTS; }

static uint8_t *counter_of(const void *p) { return &filter[((uint64_t)p >> 4) % FILTER]; }

static void add(const void *p, size_t size, uint32_t unasked, const struct stack *stack)
{
    hold();
    if (!table && is_on)
        begin();
    if (is_on && table->used < SLOTS / 4 * 3) {
        uint64_t i = place_of(p);
        while (table->slot[i].address)
            i = (i + 1) % SLOTS;
        table->slot[i] = (struct slot){(uint64_t)p, size, noted(stack), unasked, own_period};
        table->used++;
        uint8_t *counter = counter_of(p);
        if (*counter != 255)
            __atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
    } else if (is_on) {
        table->lost++;
    }
    if (++samples % MANY == 0 && period < 1 << 30)
        __atomic_store_n(&period, 2 * period, __ATOMIC_RELAXED);
    let_go();
}

/* Take it out, if it is there: those behind it move up, so that there are no gaps. */
static void take_out(const void *p)
{
    hold();
    uint64_t i = place_of(p);
    while (table && table->slot[i].address && table->slot[i].address != (uint64_t)p)
        i = (i + 1) % SLOTS;
    if (table && table->slot[i].address) {
        for (uint64_t j = (i + 1) % SLOTS; table->slot[j].address; j = (j + 1) % SLOTS) {
            uint64_t home = place_of((void *)table->slot[j].address);
            if ((j - home) % SLOTS >= (j - i) % SLOTS) {
                table->slot[i] = table->slot[j];
                i = j;
            }
        }
        table->slot[i] = (struct slot){0};
        table->used--;
        uint8_t *counter = counter_of(p);
        if (*counter != 255)
            __atomic_store_n(counter, *counter - 1, __ATOMIC_RELAXED);
    }
    let_go();
}

static __attribute__((noinline)) void sample(void *p, size_t size, int is_mapped)
{
    int error = errno;
    inside++;
    struct stack stack = {0};
    if (unwind) {
        unwind(step, &stack);
        if (stack.count < FRAMES)
            follow_frame_pointers(&stack);
    }
    size_t taken = is_mapped ? size : size_of(p) + sizeof(size_t);
    add(p, taken, is_mapped ? MAPPED : (uint32_t)(taken - size), &stack);
    draw();
    inside--;
    errno = error;
}

static inline void *given(void *p, size_t size)
{
    if (is_on && !inside && p && is_sampled(size))
        sample(p, size, 0);
    return p;
}

static inline void *mapped(void *p, size_t size, int protection)
{
    if (is_on && !inside && p != MAP_FAILED && protection != PROT_NONE && is_sampled(size))
        sample(p, size, 1);
    return p;
}

static inline void taken(void *p)
{
    if (p && __atomic_load_n(counter_of(p), __ATOMIC_RELAXED))
        take_out(p);
}

/* --- a fork ------------------------------------------------------------------------------------------------------- */

/* What pthread_atfork(3) calls: it is in a library of its own before glibc 2.34. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);

static void begin_anew(void)
{
    if (table)
        syscall(SYS_munmap, table, sizeof *table);
    table = NULL;
    memset(index_of_stacks, 0, sizeof index_of_stacks);
    memset(filter, 0, sizeof filter);
    is_seeded = 0;
    left = 0;
    let_go();
}

__attribute__((constructor)) static void start(void)
{
    const char *asked = getenv("TRUEMEM_EXPLAIN_PERIOD");
    folder = getenv("TRUEMEM_EXPLAIN");
    find();
    period = asked ? strtoull(asked, NULL, 10) : 0;
    if (!folder || !period || !size_of)
        return;
    folder = strdup(folder); /* the program may write over its environment */
    inside++;
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library) {
        register_of = dlsym(library, "_Unwind_GetGR");
        ip_of = dlsym(library, "_Unwind_GetIP");
        unwind = dlsym(library, "_Unwind_Backtrace");
        struct stack first = {0};
        unwind(step, &first); /* what it asks for at its first call, it asks for now */
    }
    inside--;
    __register_atfork(hold, let_go, begin_anew, NULL);
    is_on = 1;
    begin(); /* that there is no sample yet is an answer too */
}

/* --- what the program calls --------------------------------------------------------------------------------------- */

EXPORT void *malloc(size_t size)
{
    if (__builtin_expect(!next_malloc, 0)) {
        if (inside)
            return early(size);
        find();
    }
    return given(next_malloc(size), size);
}

EXPORT void *calloc(size_t count, size_t size)
{
    if (__builtin_expect(!next_calloc, 0)) {
        if (inside)
            return early(count * size);
        find();
    }
    return given(next_calloc(count, size), count * size);
}

EXPORT void *realloc(void *p, size_t size)
{
    find();
    if (is_early(p)) {
        void *new = next_malloc(size);
        size_t had = (size_t)(before + sizeof before - (char *)p);
        return new ? memcpy(new, p, size < had ? size : had) : new;
    }
    taken(p);
    return given(next_realloc(p, size), size);
}

EXPORT void *reallocarray(void *p, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(p, count * size);
}

EXPORT void free(void *p)
{
    if (!p || is_early(p))
        return;
    find();
    taken(p);
    next_free(p);
}

EXPORT int posix_memalign(void **p, size_t alignment, size_t size)
{
    find();
    int error = next_posix_memalign(p, alignment, size);
    if (!error)
        given(*p, size);
    return error;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    find();
    return given(next_aligned_alloc(alignment, size), size);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    find();
    return given(next_memalign(alignment, size), size);
}

EXPORT void *valloc(size_t size)
{
    find();
    return given(next_valloc(size), size);
}

EXPORT void *pvalloc(size_t size)
{
    find();
    return given(next_pvalloc(size), size);
}

EXPORT void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
    if (flags & MAP_FIXED)
        taken(at);
    return mapped((void *)syscall(SYS_mmap, at, size, protection, flags, file, offset), size, protection);
}

EXPORT void *mmap64(void *, size_t, int, int, int, off64_t) __attribute__((alias("mmap")));

EXPORT int munmap(void *at, size_t size)
{
    taken(at);
    return (int)syscall(SYS_munmap, at, size);
}

EXPORT void *mremap(void *at, size_t had, size_t size, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    void *to = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
    va_end(more);
    void *p = (void *)syscall(SYS_mremap, at, had, size, flags, to);
    if (p != MAP_FAILED)
        taken(at);
    return mapped(p, size, PROT_READ);
}
