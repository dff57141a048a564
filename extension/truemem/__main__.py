"""Start: register, then everything else.

Lambda starts the runtime once all extensions have registered, so whatever is not needed for that comes after it.
Registered, the sidecar never exits before SHUTDOWN: Lambda takes any exit for a crash of the function's environment.
"""

from __future__ import annotations

import posix
import select
import sys
import time

from .config import parse_switch
from .platform.exact_mode import ExactMode
from .platform.extensions_api import FOREVER, ApiError, ExtensionsClient
from .platform.proxy import RuntimeProxy, open_listener
from .startup import start
from .support import files
from .support.log import last_word, reason

PASSING_S = 0.01
"""Where nothing is measured any more: the wait before `next` is asked for again, or given up."""
RESERVE = (*(440,) * 150, 65_536)
"""Bytes: memory that is given back when measuring has failed, perhaps because there was no more. To answer for the
extension takes small pieces and large ones."""


def main(path: str) -> None:
    """Be the extension whose file is `path`, until SHUTDOWN. Returns on SHUTDOWN; exits 1 if it may not register, or if
    it cannot: with one line, as a traceback ends with what an exception says."""
    try:
        _serve(path)
    except Exception as error:
        last_word(f"ended: {reason(error)}")
        sys.exit(1)


def _serve(path: str) -> None:
    address = posix.environ.get(b"AWS_LAMBDA_RUNTIME_API", b"").decode("latin-1")
    folder, _, name = path.rpartition("/")
    if not address.rpartition(":")[2].isdigit():
        last_word("AWS_LAMBDA_RUNTIME_API is not host:port; this runs as a Lambda extension")
        sys.exit(1)
    reserve = [bytes(size) for size in RESERVE]
    api = ExtensionsClient(address)
    measuring = _enabled()
    port = posix.environ.get(b"TRUEMEM_PORT", b"")
    # The runtime may come as soon as we have registered; one that was pointed at the port, even if nothing is measured.
    listener = open_listener(address, port) if measuring or port else None
    managed = posix.environ.get(b"AWS_LAMBDA_INITIALIZATION_TYPE") == b"lambda-managed-instances"
    loadavg = _loadavg()
    managed = _registered(api, name, measuring, managed)
    proxy = None
    try:
        proxy = RuntimeProxy(listener, address, ExactMode(pooled=not managed)) if listener is not None else None
        if measuring:
            start(api, address, folder, name, managed, loadavg, proxy)
            return
    except Exception as error:  # a bug of ours must not become the function's
        reserve.clear()
        last_word(f"stopped measuring: {reason(error)}")
    _sit_out(api, proxy)


def _loadavg() -> bytes:
    """/proc/loadavg as text: its last word is the pid given out last. The runtime starts after we register, so its pid
    is higher."""
    try:
        return files.read("/proc/loadavg", 128)
    except OSError:
        return b""


def _enabled() -> bool:
    try:
        return parse_switch(posix.environ.get(b"TRUEMEM_ENABLED", b"on").decode("latin-1"))
    except ValueError:
        return True  # Config says so in the log


def _registered(api: ExtensionsClient, name: str, measuring: bool, managed: bool) -> bool:
    """Register, whatever it takes. Exits 1 if the platform refuses: its init waits for us, so that to stay would only
    make it fail late. No answer, or a fault of the platform's own, may pass: the limit for init is the only one."""
    pause = 0.0
    reported = ""
    while True:
        try:
            return _register(api, name, measuring, managed)
        except ApiError as error:
            if reported != reason(error):
                reported = reason(error)
                last_word(reported)
            if 0 < error.status < 500:
                sys.exit(1)
            time.sleep(pause)
            pause = min(1.0, pause * 2 + 0.01)


def _register(api: ExtensionsClient, name: str, measuring: bool, managed: bool) -> bool:
    """Register; True on Managed Instances, where the platform grants SHUTDOWN only. Raises ApiError."""
    try:
        api.register(name, '["INVOKE","SHUTDOWN"]' if measuring and not managed else '["SHUTDOWN"]')
    except ApiError as error:
        if b"Extension.InvalidEventType" not in error.body:
            raise
        api.register(name, '["SHUTDOWN"]')
        return True
    return managed


def _sit_out(api: ExtensionsClient, proxy: RuntimeProxy | None) -> None:
    """Answer for the extension, pass the runtime's bytes, and do nothing else, until SHUTDOWN."""
    ask_at = 0.0
    while True:
        try:
            if not api.waiting and time.monotonic() >= ask_at:
                api.send_next()
            wait_s = PASSING_S if api.overdue_at < FOREVER or not api.waiting else FOREVER
            if proxy is not None:
                proxy.serve_until(api.descriptor, wait_s)
            else:
                poll = select.poll()
                if api.waiting:
                    poll.register(api.descriptor, select.POLLIN)
                poll.poll(wait_s * 1000 if wait_s < FOREVER else None)
            if api.waiting and b'"SHUTDOWN"' in api.receive_event():
                return
        except ApiError:
            ask_at = time.monotonic() + api.pause_s
        except Exception:  # no memory, perhaps: there may be some again
            time.sleep(0.001)


if __name__ == "__main__":
    main(sys.argv[0])
