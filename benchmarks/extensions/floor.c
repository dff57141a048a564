/* The floor: an extension that registers, asks for its next event until SHUTDOWN, and does nothing else. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static const char header[] = "Lambda-Extension-Identifier:";

static char text[8192], next[512];

static void ask(int connection, const char *request)
{
    ssize_t size = -1;
    if (write(connection, request, strlen(request)) > 0)
        size = read(connection, text, sizeof text - 1);
    if (size <= 0 || strncmp(text, "HTTP/1.1 200", 12) != 0)
        exit(1);
    text[size] = 0;
}

static const char *identifier(void)
{
    for (char *line = strtok(text, "\r\n"); line != NULL; line = strtok(NULL, "\r\n"))
        if (strncasecmp(line, header, sizeof header - 1) == 0)
            return line + sizeof header - 1;
    exit(1);
}

int main(void)
{
    const char *address = getenv("AWS_LAMBDA_RUNTIME_API"), *colon = address ? strchr(address, ':') : NULL;
    if (colon == NULL)
        return 1;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(colon + 1))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(connection, (struct sockaddr *)&to, sizeof to) != 0)
        return 1;
    ask(connection, "POST /2020-01-01/extension/register HTTP/1.1\r\nHost: x\r\nLambda-Extension-Name: floor\r\n"
                    "Content-Length: 32\r\n\r\n{\"events\":[\"INVOKE\",\"SHUTDOWN\"]}");
    snprintf(next, sizeof next, "GET /2020-01-01/extension/event/next HTTP/1.1\r\nHost: x\r\n%s%s\r\n\r\n", header,
             identifier());
    do
        ask(connection, next);
    while (strstr(text, "SHUTDOWN") == NULL);
}
