/* A runtime and its function, ready within a millisecond of exec, as one in Rust or Go may be. For each event `MIB MS` it
 * holds so much memory for so long, and answers with its own highest RSS in KiB: what it had before, and that memory. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static char text[1 << 16];

static char *ask(int connection, const char *request)
{
    size_t size = 0, length = 0;
    char *end = NULL;
    if (write(connection, request, strlen(request)) < 0)
        exit(1);
    while (end == NULL || size < (size_t)(end - text) + 4 + length) {
        ssize_t more = read(connection, text + size, sizeof text - 1 - size);
        if (more <= 0)
            exit(1);
        text[size += more] = 0;
        end = strstr(text, "\r\n\r\n");
        char *header = strcasestr(text, "content-length:");
        length = end != NULL && header != NULL && header < end ? strtoul(header + 15, NULL, 10) : 0;
    }
    return end + 4;
}

static long rss_kib(void)
{
    char status[4096] = "";
    FILE *file = fopen("/proc/self/status", "r");
    if (file == NULL || fread(status, 1, sizeof status - 1, file) == 0)
        exit(1);
    fclose(file);
    return strtol(strstr(status, "VmRSS:") + 6, NULL, 10);
}

int main(void)
{
    char *api = getenv("AWS_LAMBDA_RUNTIME_API"), *colon = api ? strchr(api, ':') : NULL, request[1024], id[64] = "";
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(colon ? atoi(colon + 1) : 0)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(connection, (struct sockaddr *)&to, sizeof to) != 0)
        return 1;
    for (;;) {
        char *body = ask(connection, "GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: x\r\n\r\n");
        sscanf(strcasestr(text, "lambda-runtime-aws-request-id:") + 30, " %63[^\r]", id);
        size_t size = (strtoul(body + strcspn(body, "0123456789"), &body, 10) + 1) << 20;
        long before = rss_kib();
        char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t at = 0; at < size; at += 4096)
            memory[at] = 1;
        usleep(1000 * strtoul(body + strcspn(body, "0123456789"), NULL, 10));
        munmap(memory, size);
        char answer[32];
        int length = sprintf(answer, "%ld", before + (long)(size >> 10));
        snprintf(request, sizeof request,
                 "POST /2018-06-01/runtime/invocation/%s/response HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", id,
                 length, answer);
        ask(connection, request);
    }
}
