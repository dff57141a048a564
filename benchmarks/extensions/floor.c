/* The floor: an extension that registers, asks for its next event, and does nothing else. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char text[8192];

static void ask(int connection, const char *request)
{
    if (write(connection, request, strlen(request)) < 0 || read(connection, text, sizeof text - 1) <= 0)
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
    for (;;)
        ask(connection, "GET /2020-01-01/extension/event/next HTTP/1.1\r\nHost: x\r\n"
                        "Lambda-Extension-Identifier: 00000000-0000-0000-0000-000000000001\r\n\r\n");
}
