"""`python meeting.py`: binds sockets as sidecars do, runs a command, and tells what came of both; one meeting after the
other. JSON in, JSON out.

Run in a network namespace of its own: the sockets of the machine's other sidecars are not seen there.
"""

import json
import socket
import struct
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

SHOW = r"""
import json, os, sys
def fields(name):
    with open(f"/proc/self/{name}", "rb") as file:
        return file.read().decode("latin-1").split("\0")[:-1]
descriptors = [each for each in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{each}")]
shown = {"arguments": fields("cmdline")[4:], "environ": fields("environ"), "pid": os.getpid(),
         "descriptors": sorted(map(int, descriptors))}
with open(os.environ["SHOWN"], "w") as file:
    json.dump(shown, file)
"""
"""What stands for the runtime: `python -S -c SHOW ARGUMENTS...` writes down how it was started."""


def listening(name: bytes, kind: str) -> socket.socket:
    """`kind`: `datagram`, `full` (its queue, so that nothing can be sent to it), `stream`."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM if kind == "stream" else socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    made.setblocking(False)
    made.bind(name)
    if kind == "stream":
        made.listen()
    if kind == "full":
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filler:
            filler.setblocking(False)
            try:
                while True:
                    filler.sendto(b"filler", name)
            except BlockingIOError:
                pass
    return made


def received(sidecar: socket.socket) -> list[tuple[int, str]]:
    """Sender's pid and text of each datagram."""
    found: list[tuple[int, str]] = []
    while True:
        try:
            text, ancillary, *_ = sidecar.recvmsg(1 << 16, socket.CMSG_SPACE(struct.calcsize("iii")))
        except OSError:  # none there, or no datagram socket
            return found
        pid, _, _ = struct.unpack("iii", ancillary[0][2])
        found.append((pid, text.decode("latin-1")))


def run(given: dict[str, Any]) -> dict[str, Any]:
    """Keys: `names` with kinds, `command`, `environment`; text is Latin-1 for bytes."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        sockets = {
            name: opened.enter_context(listening(name.encode("latin-1"), kind)) for name, kind in given["names"].items()
        }
        shown = Path(folder) / "shown"
        environment = {**given["environment"], "SHOWN": str(shown)}
        done = subprocess.run(
            [argument.encode("latin-1") for argument in given["command"]],
            env={name.encode("latin-1"): value.encode("latin-1") for name, value in environment.items()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        return {
            "code": done.returncode,
            "stdout": done.stdout.decode("latin-1"),
            "stderr": done.stderr.decode("latin-1"),
            "shown": json.loads(shown.read_bytes()) if shown.exists() else None,
            "received": {name: received(sidecar) for name, sidecar in sockets.items()},
        }


if __name__ == "__main__":
    json.dump([run(given) for given in json.load(sys.stdin)], sys.stdout)
