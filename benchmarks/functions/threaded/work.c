// A function in C: one thread, one connection to the Runtime API, and the kind of work that the event names.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1 << 20)
#define PATH "/2018-06-01/runtime/invocation/"

static char answer[MIB], message[1 << 16], id[64];
static char *kept[100];
static int api = -1;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void dial(void) {
    char host[64];
    strncpy(host, getenv("AWS_LAMBDA_RUNTIME_API"), sizeof host - 1);
    char *port = strchr(host, ':');
    *port++ = 0;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    inet_pton(AF_INET, host, &to.sin_addr);
    api = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(api, (struct sockaddr *)&to, sizeof to)) fail("connect");
    setsockopt(api, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

static void put(const char *bytes, size_t length) {
    while (length) {
        ssize_t sent = write(api, bytes, length);
        if (sent <= 0) fail("write");
        bytes += sent, length -= sent;
    }
}

/** Read a response into `message`, and return its body. */
static char *get(void) {
    size_t length = 0, wanted = sizeof message - 1;
    char *body = NULL;
    while (length < wanted) {
        ssize_t got = read(api, message + length, wanted - length);
        if (got <= 0) fail("read");
        message[length += got] = 0;
        if (!body && (body = strstr(message, "\r\n\r\n"))) {
            body += 4;
            char *size = strcasestr(message, "\ncontent-length:");
            wanted = body - message + (size ? atoi(size + 16) : 0);
        }
    }
    return body;
}

/** Take a block, touch it, and give it back: the kernel maps it, and unmaps it. */
static void touch(size_t size) {
    char *block = malloc(size);
    memset(block, 1, size);
    __asm__ volatile("" ::"r"(block) : "memory");
    free(block);
}

static int by_value(const void *one, const void *other) {
    return (*(int *)one > *(int *)other) - (*(int *)one < *(int *)other);
}

static void sorting(int count) {
    int *numbers = malloc(count * sizeof *numbers);
    for (int n = 0; n < count; n++) numbers[n] = rand();
    qsort(numbers, count, sizeof *numbers, by_value);
    free(numbers);
}

/** Many small blocks, as a table of strings has them. */
static void table(int count) {
    char **names = malloc(count * sizeof *names);
    for (int n = 0; n < count; n++) sprintf(names[n] = malloc(24 + n % 64), "order %d", n);
    for (int n = 0; n < count; n++) free(names[n]);
    free(names);
}

/** A cache that keeps some of its blocks from event to event. */
static void caching(void) {
    for (int n = 0; n < 40; n++) {
        char **place = &kept[rand() % 100];
        free(*place);
        memset(*place = malloc(200000), n, 200000);
    }
}

/** Work, and return the size of the answer. */
static size_t work(const char *event) {
    if (strstr(event, "touch")) touch(50 * MIB);
    else if (strstr(event, "twice")) touch(30 * MIB), touch(40 * MIB);
    else if (strstr(event, "buffers")) for (int n = 0; n < 4; n++) touch(5 * MIB);
    else if (strstr(event, "sorting")) sorting(100000);
    else if (strstr(event, "table")) table(50000);
    else if (strstr(event, "caching")) caching();
    else if (strstr(event, "answer")) return 1000000;
    return 10;
}

int main(void) {
    char head[256];
    memset(answer, 'x', sizeof answer);
    dial();
    while (1) {
        put(head, sprintf(head, "GET " PATH "next HTTP/1.1\r\nHost: api\r\n\r\n"));
        char *event = get(), *name = strcasestr(message, "lambda-runtime-aws-request-id:");
        sscanf(name + 30, " %63[^\r\n]", id);
        size_t size = work(event);
        put(head, sprintf(head, "POST " PATH "%s/response HTTP/1.1\r\nHost: api\r\nContent-Length: %zu\r\n\r\n", id, size + 2));
        put("\"", 1), put(answer, size), put("\"", 1);
        get();
    }
}
