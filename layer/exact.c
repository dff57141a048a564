/* exact PROGRAM [ARGUMENT...]: starts the function's runtime through the sidecar, if one listens here.
 *
 * The sidecar has bound an abstract datagram socket, truemem/exact/ADDRESS/PORT: the Runtime API's address as the sidecar
 * was given it, and a port of its own on 127.0.0.1. We find that name in /proc/net/unix, send the address that we were
 * given (the sidecar learns our pid with it: the runtime's), put 127.0.0.1:PORT in its place, and become the program.
 *
 * Whatever fails, the function has to start: as it would have without us, after one line on stderr. There is no heap, and
 * no descriptor is left open. extension/truemem/exact is the same in Python: change both.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define API "AWS_LAMBDA_RUNTIME_API"
#define WRAPPER "TRUEMEM_EXEC_WRAPPER" /* another vendor's, from the user */
#define PROGRAM "TRUEMEM_EXEC_PROGRAM" /* from us to ourselves, behind that wrapper */
#define PREFIX "@truemem/exact/"       /* as /proc/net/unix prints it: '@' for the zero byte */
#define LOOPBACK "127.0.0.1:"

enum { LINE = 512 /* more than seven columns and a name of 108 bytes, the longest there is */ };

/* One line in one write: the names of variables, never a value of one, nor an argument. SIGPIPE would end us, so it is ignored meanwhile: only meanwhile, for the program inherits it. */
static void say(const char *level, const char *what, const char *why, const char *then)
{
    const char *parts[] = {"truemem ", level, " ", what, ": ", why, then, "\n"};
    struct iovec line[sizeof parts / sizeof *parts];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        line[i] = (struct iovec){(char *)parts[i], strlen(parts[i])};
    struct sigaction ignored = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGPIPE, &ignored, &before);
    (void)!writev(STDERR_FILENO, line, sizeof parts / sizeof *parts);
    sigaction(SIGPIPE, &before, NULL);
}

/* Put `entry` in the place of each variable of that name, or take it out. In place: setenv() would allocate. */
static void replace(const char *name, char *entry)
{
    size_t length = strlen(name);
    char **kept = environ;
    for (char **each = environ; *each; each++)
        if (strncmp(*each, name, length) != 0 || (*each)[length] != '=')
            *kept++ = *each;
        else if (entry)
            *kept++ = entry;
    *kept = NULL;
}

/* Read the next line; a line that is too long to be ours comes as an empty one. 0 at the end. */
static int next_line(int file, char line[LINE])
{
    static char bytes[4096];
    static ssize_t at, end;
    for (size_t length = 0;;) {
        if (at == end) {
            at = 0, end = read(file, bytes, sizeof bytes);
            if (end <= 0)
                return end = 0;
        }
        char byte = bytes[at++];
        if (byte == '\n') {
            line[length < LINE ? length : 0] = '\0';
            return 1;
        }
        if (length < LINE)
            line[length++] = byte;
    }
}

/* The socket's name in a line: behind seven columns and one space (unix_seq_show() in the kernel). */
static const char *name_in(const char *line)
{
    for (int column = 0; column < 7; column++) {
        line += strspn(line, " ");
        line += strcspn(line, " ");
    }
    return line + (*line == ' ');
}

/* The port at the end of a name of ours; NULL: it is not ours. */
static const char *port_in(const char *name)
{
    const char *slash = strncmp(name, PREFIX, strlen(PREFIX)) == 0 ? strrchr(name + strlen(PREFIX), '/') : NULL;
    if (slash == NULL)
        return NULL;
    const char *port = slash + 1;
    size_t digits = strspn(port, "0123456789");
    int valid = digits > 0 && digits <= 5 && port[digits] == '\0' && port[0] != '0' && atoi(port) <= 65535;
    return valid ? port : NULL;
}

/* Send our address to the sidecar of that name, and take its port. */
static int meet(const char *name, const char *api)
{
    static char entry[] = API "=" LOOPBACK "65535";
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    if (length > sizeof to.sun_path)
        return 0;
    memcpy(to.sun_path + 1, name + 1, length - 1); /* in the place of the '@' stays the zero byte */
    int out = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ssize_t sent = sendto(out, api, strlen(api), MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to,
                          offsetof(struct sockaddr_un, sun_path) + length);
    if (out >= 0)
        close(out);
    if (sent < 0)
        return 0;
    strcpy(entry + strlen(API "=" LOOPBACK), port_in(name));
    replace(API, entry);
    return 1;
}

/* NULL, and the program will connect to the sidecar; or why it will not. */
static const char *seek(int chained)
{
    const char *api = getenv(API);
    if (api == NULL)
        return API " is not set";
    int file = open("/proc/net/unix", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return "/proc/net/unix cannot be read";
    char line[LINE], other[LINE];
    int others = 0, refused = 0, done = 0;
    while (!done && next_line(file, line)) {
        const char *name = name_in(line), *port = port_in(name), *address = name + strlen(PREFIX);
        if (port == NULL)
            continue;
        if (strncmp(api, LOOPBACK, strlen(LOOPBACK)) == 0 && strcmp(api + strlen(LOOPBACK), port) == 0)
            done = 1; /* as entry point and as wrapper: the second time, the sidecar would connect to itself */
        else if (strlen(api) == (size_t)(port - 1 - address) && strncmp(address, api, strlen(api)) == 0)
            done = meet(name, api), refused |= !done; /* a name with a newline in it forges lines: look further */
        else if (others++ == 0)
            strcpy(other, name);
    }
    close(file);
    if (!done && !refused && others == 1 && chained) /* another vendor's wrapper has changed our address: it is this one */
        done = meet(other, api), refused = !done;
    if (done)
        return NULL;
    return refused ? "the sidecar takes no message" : others ? "no sidecar listens for this address"
                                                             : "no sidecar listens here";
}

/* Start another vendor's wrapper, which is to start us again: behind it we see the address that it sets. */
static void chain(char *wrapper, int argc, char **argv)
{
    static char self[PATH_MAX], program[sizeof PROGRAM "=" + PATH_MAX];
    if (strlen(argv[1]) < PATH_MAX)
        replace(WRAPPER, strcat(strcpy(program, PROGRAM "="), argv[1]));
    replace(WRAPPER, NULL); /* else we would start it again and again */
    if (*wrapper == '\0')
        return;
    size_t size = ((size_t)argc + 2) * sizeof *argv; /* not on the stack, of which the arguments may have left little */
    char **command = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (command != MAP_FAILED) {
        command[0] = wrapper;
        command[1] = readlink("/proc/self/exe", self, sizeof self - 1) > 0 ? self : argv[0];
        memcpy(command + 2, argv + 1, (size_t)argc * sizeof *argv); /* with the NULL at its end */
        execvp(wrapper, command);
    }
    say("ERROR", WRAPPER, strerror(errno), "; the runtime starts without it");
}

/* A wrapper may put options behind the first of its arguments, as AWS's own example does. That is us, not the program:
 * the options belong behind the program. */
static void options_behind_program(char **command)
{
    const char *program = getenv(PROGRAM);
    size_t at = 0;
    if (program == NULL || command[0][0] != '-')
        return;
    while (command[at] && strcmp(command[at], program) != 0)
        at++;
    if (command[at] == NULL)
        return;
    char *found = command[at];
    memmove(command + 1, command, at * sizeof *command);
    command[0] = found;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        say("ERROR", "usage", "exact PROGRAM [ARGUMENT...]", "");
        return 2;
    }
    char *wrapper = getenv(WRAPPER);
    if (wrapper)
        chain(wrapper, argc, argv);
    options_behind_program(argv + 1);
    int chained = getenv(PROGRAM) != NULL;
    replace(PROGRAM, NULL);
    const char *off = seek(chained);
    if (off)
        say("INFO", "exact mode is off", off, "; the runtime starts as it is");
    execvp(argv[1], argv + 1);
    int error = errno; /* 127: not found, 126: found and not started, as a shell says it */
    say("ERROR", "the program to start", strerror(error), "");
    return error == ENOENT ? 127 : 126;
}
