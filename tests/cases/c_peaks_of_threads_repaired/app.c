/* Makes a list of files in one of 24 threads for each event, and keeps a small snapshot of each 16th file. A few lists
   are long. */
#include "runtime.h"
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>

enum { THREADS = 24, LONGEST = 250 };
static sem_t asked[THREADS], answered;
static int length[THREADS];

static void *worker(void *number) {
    char *list[LONGEST], *snapshots[LONGEST / 16 + 1] = {0};
    for (long me = (long)number;;) {
        sem_wait(&asked[me]);
        for (int i = 0; i < length[me]; i++) {
            memset(list[i] = malloc(32000), i, 32000);
            if (i % 16 == 15 && snapshots[i / 16] == NULL) snapshots[i / 16] = malloc(100); /* stays */
        }
        for (int i = 0; i < length[me]; i++) free(list[i]);
        sem_post(&answered);
    }
}

static void handler(const char *event) {
    static unsigned chance = 1, started;
    if (!started++) {
        mallopt(M_ARENA_MAX, 1);
        pthread_t thread;
        sem_init(&answered, 0, 0);
        for (long i = 0; i < THREADS; i++) sem_init(&asked[i], 0, 0), pthread_create(&thread, NULL, worker, (void *)i);
    }
    chance = chance * 1103515245 + 12345;
    int thread = (chance >> 16) % THREADS, rare = (chance >> 21) % 64;
    length[thread] = rare < 2 ? LONGEST : rare < 6 ? LONGEST / 2 : 10 + rare / 2;
    sem_post(&asked[thread]);
    sem_wait(&answered);
    malloc_trim(0);
}
