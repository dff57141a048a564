/* Runs a tool for each event. It finds the context of the execution in its environment. */
#include "runtime.h"

#include <spawn.h>
#include <sys/wait.h>

static int executions;

static void handler(const char *event) {
    char context[4000], *arguments[] = {"true", NULL}, *environment[] = {context, NULL};
    int length = snprintf(context, sizeof context, "EXECUTION_CONTEXT=execution-%d;", ++executions);
    memset(context + length, 'x', sizeof context - length - 1);
    context[sizeof context - 1] = 0;
    pid_t tool;
    if (posix_spawnp(&tool, "true", NULL, NULL, arguments, environment) == 0) waitpid(tool, NULL, 0);
}
