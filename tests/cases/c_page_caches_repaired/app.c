/* Looks up 32 random pages of a large database for each event, through one of 4 connections of a pool. */
#include "runtime.h"

enum { CONNECTIONS = 4, PAGES = 60, DATABASE = 25000, PAGE = 4096 };

struct connection {
    char *page[DATABASE]; /* NULL: not in the cache of this connection */
    int cached[PAGES], used, oldest;
};

static struct connection pool[CONNECTIONS];
static unsigned random_state = 11;
static int events;

static char *page_of(struct connection *connection, int number) {
    if (connection->page[number] != NULL) return connection->page[number];
    char *page = NULL;
    if (connection->used < PAGES) {
        page = malloc(PAGE);
        connection->cached[connection->used++] = number;
    } else { /* the oldest one gives its memory */
        int *slot = &connection->cached[connection->oldest++ % PAGES];
        page = connection->page[*slot];
        connection->page[*slot] = NULL;
        *slot = number;
    }
    memset(page, number, PAGE);
    return connection->page[number] = page;
}

static void handler(const char *event) {
    struct connection *connection = &pool[events++ % CONNECTIONS];
    for (int read = 0; read < 32; read++) page_of(connection, rand_r(&random_state) % DATABASE);
}
