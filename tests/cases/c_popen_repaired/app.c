/* Asks a command for the address of the host, for each event. */
#include "runtime.h"

static void handler(const char *event) {
    char address[256];
    FILE *answer = popen("echo 10.0.0.7", "r");
    if (answer == NULL) exit(1);
    if (fgets(address, sizeof address, answer) == NULL) fprintf(stderr, "no address\n");
    pclose(answer);
}
