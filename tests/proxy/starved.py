"""A process of its own with a proxy and no descriptors left: python -m tests.proxy.starved ADDRESS [frees|takes]

It prints its port when all descriptors are taken, and serves until its input ends. With `frees` it gives some back,
once a connection could not be accepted: as a part of the sidecar would that knows nothing of the proxy. With `takes`
such a part takes every descriptor that is free after each turn.
"""

import os
import resource
import sys
import threading
import time

from truemem.platform.exact_mode import ExactMode
from truemem.platform.proxy import ProxyListener, RuntimeProxy

from testing.proxy import FOREVER_S, fill_descriptors

LIMIT = 64


def main(address: str, frees: bool, takes: bool) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    listener = ProxyListener(address)
    proxy = RuntimeProxy(listener, address, ExactMode())
    taken = fill_descriptors()
    if frees:
        threading.Thread(target=free, args=(proxy, taken), daemon=True).start()
    print(listener.port, flush=True)
    while True:
        proxy.serve_until(0, FOREVER_S)
        if takes:
            fill_descriptors()
        if readable(0):
            return


def readable(descriptor: int) -> bool:
    """Its input has ended, as nothing is ever written to it."""
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, 1) == b""
    except BlockingIOError:
        return False


def free(proxy: RuntimeProxy, taken: list[int]) -> None:
    while not proxy.problem:
        time.sleep(0.001)
    time.sleep(0.1)  # so that the proxy waits again
    for descriptor in taken:
        os.close(descriptor)


if __name__ == "__main__":
    main(sys.argv[1], "frees" in sys.argv[2:], "takes" in sys.argv[2:])
