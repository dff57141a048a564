"""Starts a program in the root of an image, as another user. This machine's Python runs it: standard library alone.

Its only argument is a JSON document: `namespaces`, descriptors of `user` and `mnt` as paths; `root`, `folder` in it,
`user` ([uid, gid] or null), `variables`, `command`.
"""

import ctypes
import json
import os
import signal
import sys

SHOWN = "env"
"""Its name where the program could not be started: then its exit code is not the program's."""
API = "AWS_LAMBDA_RUNTIME_API"


def main() -> int:
    asked = json.loads(sys.argv[1])
    variables, command = asked["variables"], asked["command"]
    if API in os.environ:  # exact mode has changed it on the way here
        variables[API] = os.environ[API]
    libc = ctypes.CDLL(None, use_errno=True)
    for descriptor in [os.open(path, os.O_RDONLY) for path in asked["namespaces"]]:
        if libc.setns(descriptor, 0):
            raise OSError(ctypes.get_errno(), "setns")
        os.close(descriptor)
    os.chroot(asked["root"])
    try:
        if asked["user"] is not None:
            uid, gid = asked["user"]
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
        os.chdir(asked["folder"])
        for each in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the program would inherit that
            signal.signal(each, signal.SIG_DFL)
        os.execvpe(command[0], command, variables)
    except OSError as error:
        with open("/proc/self/comm", "w") as file:  # noqa: PTH123
            file.write(SHOWN)
        return 127 if isinstance(error, FileNotFoundError) else 126


if __name__ == "__main__":
    sys.exit(main())
