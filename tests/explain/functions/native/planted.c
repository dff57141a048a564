/* Leaks in C, one for each name: LEAK says which one runs. With REPAIRED what it asks for is freed again, at the next
   event. A comment with the name marks the line that asks for what stays. */
#include "runtime.h"
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

static void *last; /* what the repaired one frees */
static int is_repaired;

static void *kept(void *p) {
    if (is_repaired) {
        free(last);
        last = p;
    }
    return p;
}

struct node { struct node *next; char text[2000]; };
static struct node *orders;

static void node(const char *event) {
    struct node *new = kept(malloc(sizeof *new)); /* node */
    new->next = orders;
    snprintf(new->text, sizeof new->text, "%s", event);
    if (!is_repaired) orders = new;
}

static char long_name[3000];

static void copy(const char *event) {
    (void)event;
    memset(long_name, 'a', sizeof long_name - 1);
    kept(strdup(long_name)); /* copy */
}

static void small_ones(const char *event) {
    (void)event;
    void *some[40];
    for (int i = 0; i < 40; i++) {
        some[i] = malloc(40); /* small_ones */
        memset(some[i], 1, 40);
    }
    for (int i = 0; is_repaired && i < 40; i++) free(some[i]);
}

static char *table;
static size_t length;

static void grown(const char *event) {
    (void)event;
    length = is_repaired ? 2000 : length + 2000;
    table = realloc(table, length); /* grown */
    memset(table + length - 2000, 1, 2000);
}

static void beside_others(const char *event) {
    for (int i = 0; i < 300; i++) {
        void *p = malloc(200 + 100 * (i % 40));
        memset(p, i, 200);
        free(p);
    }
    kept(calloc(1, 1000 + strlen(event))); /* beside_others */
}

static void *play(void *event) {
    (void)event;
    return kept(memset(malloc(3000), 1, 3000)); /* in_thread */
}

static void in_thread(const char *event) {
    pthread_t thread;
    pthread_create(&thread, NULL, play, (void *)event);
    pthread_join(thread, NULL);
}

static void aligned(const char *event) {
    (void)event;
    void *p;
    if (posix_memalign(&p, 256, 2048) == 0) memset(kept(p), 1, 2048); /* aligned */
}

static void file(const char *event) {
    (void)event;
    static FILE *open_one;
    if (is_repaired && open_one) fclose(open_one);
    open_one = fopen("/proc/self/status", "r"); /* file */
}

static void forking(const char *event) {
    (void)event;
    if (fork() == 0) {
        for (int i = 0; i < 100; i++) memset(malloc(5000), 1, 5000);
        _exit(0);
    }
    kept(memset(malloc(2500), 1, 2500)); /* forking */
}

void call_without_tables(void (*called)(void));

static void keep_below(void) {
    kept(memset(malloc(2200), 1, 2200)); /* below_go */
}

static void below_go(const char *event) {
    (void)event;
    call_without_tables(keep_below);
}

static uint64_t *numbers;
static size_t count, room;

static void doubled(const char *event) {
    (void)event;
    for (int i = 0; i < 200; i++) {
        if (count == room) {
            room = room ? 2 * room : 4;
            numbers = realloc(numbers, room * sizeof *numbers); /* doubled */
        }
        numbers[count++] = i;
    }
    if (is_repaired) count = 0;
}

static void mapped(const char *event) {
    (void)event;
    char *pages = mmap(NULL, 32768, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* mapped */
    memset(pages, 1, 8192);
    if (is_repaired) munmap(pages, 32768);
}

static char *text(size_t size) { return memset(malloc(size), 1, size); }

static void by_helper(const char *event) {
    char *first = text(900 + strlen(event));
    kept(text(1500)); /* by_helper */
    char *second = text(2000);
    free(first);
    free(second);
}

static char *block(size_t size) {
    char *made = malloc(size); /* everywhere */
    return memset(made, 1, size);
}

static void everywhere(const char *event) {
    static char *settings;
    if (!settings) settings = block(5000); /* once: it does not tell the others apart */
    kept(block(800));
    kept(block(1200 + strlen(event) % 2));
}

static const struct { const char *name; void (*run)(const char *); } leaks[] = {
    {"node", node}, {"copy", copy}, {"small_ones", small_ones}, {"grown", grown}, {"beside_others", beside_others},
    {"below_go", below_go}, {"doubled", doubled}, {"in_thread", in_thread}, {"aligned", aligned}, {"file", file}, {"forking", forking},
    {"mapped", mapped}, {"by_helper", by_helper}, {"everywhere", everywhere},
};

static void handler(const char *event) {
    is_repaired = getenv("REPAIRED") != NULL;
    for (size_t i = 0; i < sizeof leaks / sizeof *leaks; i++)
        if (strcmp(leaks[i].name, getenv("LEAK")) == 0) leaks[i].run(event);
}
