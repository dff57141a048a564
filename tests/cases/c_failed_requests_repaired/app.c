/* Sends a subscription for each event. One in ten is refused. */
#include "runtime.h"

struct request {
    char topic[64];
    char frame[40000];
};

static int requests;

static int subscribe(const char *event) {
    struct request *request = malloc(sizeof *request);
    snprintf(request->topic, sizeof request->topic, "%s/%d", event, requests);
    memset(request->frame, requests, sizeof request->frame);
    if (++requests % 10 == 0) { /* not subscribed */
        free(request);
        return -1;
    }
    free(request);
    return 0;
}

static void handler(const char *event) {
    if (subscribe(event) != 0) fprintf(stderr, "refused\n");
}
