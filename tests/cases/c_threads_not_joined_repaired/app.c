/* Plays a tone in a thread of its own for each event. */
#include "runtime.h"
#include <pthread.h>
#include <semaphore.h>

static sem_t played;

static void *play(void *event) {
    char samples[16000];
    memset(samples, *(const char *)event, sizeof samples);
    sem_post(&played);
    return samples[7] ? NULL : event;
}

static void handler(const char *event) {
    pthread_t thread;
    sem_init(&played, 0, 0);
    if (pthread_create(&thread, NULL, play, (void *)event) != 0) exit(1);
    sem_wait(&played);
    pthread_join(thread, NULL);
}
