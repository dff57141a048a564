"""Start: register, then everything else.

Lambda starts the runtime only when every extension has registered, so whatever is not needed for that is
imported while the request is on its way. Registered, the sidecar never exits before SHUTDOWN: Lambda takes
any exit for a crash of the function's environment.
"""

from __future__ import annotations

import posix
import sys
import time

from . import switch
from .lambda_api import ApiError, LambdaApi


def main(path: str) -> None:
    """Be the extension whose file is `path`, until SHUTDOWN. Returns on SHUTDOWN; exits 1 if it may not register."""
    address = posix.environ.get(b"AWS_LAMBDA_RUNTIME_API", b"").decode("latin-1")
    folder, _, name = path.rpartition("/")
    if not address.rpartition(":")[2].isdigit():
        _say("AWS_LAMBDA_RUNTIME_API is not host:port; this runs as a Lambda extension")
        sys.exit(1)
    api = LambdaApi(address)
    measuring = _enabled()
    managed = posix.environ.get(b"AWS_LAMBDA_INITIALIZATION_TYPE") == b"lambda-managed-instances"
    loadavg = _loadavg()
    managed = _registered(api, name, measuring, managed)
    if measuring:
        try:
            from .startup import start

            start(api, address, folder, name, managed, loadavg)
            return
        except Exception as error:  # a bug of ours must not become the function's
            _say(f"stopped measuring: {error!r}")
    _sit_out(api)


def _say(text: str) -> None:
    """Before there is a log, or after it. Whoever was to read it may be gone: that is no reason to end as well."""
    try:
        posix.write(2, f"truemem ERROR {text}\n".encode("utf-8", "replace"))
    except OSError:
        pass


def _loadavg() -> bytes:
    """Its last word is the pid given out last. Before we register there is no runtime: its pid comes after this one."""
    try:
        descriptor = posix.open("/proc/loadavg", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return posix.read(descriptor, 128)
    except OSError:
        return b""
    finally:
        posix.close(descriptor)


def _enabled() -> bool:
    try:
        return switch.parse(posix.environ.get(b"TRUEMEM_ENABLED", b"on").decode("latin-1"))
    except ValueError:
        return True  # Config says so in the log


def _registered(api: LambdaApi, name: str, measuring: bool, managed: bool) -> bool:
    """Register, whatever it takes. Exits 1 if the platform refuses: its init waits for us, so that to stay would only
    make it fail late. Where nobody answers, or with a fault of his own, that may pass: the platform's limit for init
    is the only one."""
    pause = 0.0
    told = ""
    while True:
        try:
            return _register(api, name, measuring, managed)
        except ApiError as error:
            if told != f"{error}":
                told = f"{error}"
                _say(told)
            if 0 < error.status < 500:
                sys.exit(1)
            time.sleep(pause)
            pause = min(1.0, pause * 2 + 0.01)


def _register(api: LambdaApi, name: str, measuring: bool, managed: bool) -> bool:
    """Register; True on Managed Instances, where the platform grants SHUTDOWN only. Raises ApiError."""
    api.send_register(name, '["INVOKE","SHUTDOWN"]' if measuring and not managed else '["SHUTDOWN"]')
    if measuring:
        try:
            from . import startup  # noqa: F401 - while the request is on its way: most of what there is to import
        except Exception as error:
            _say(f"{error!r}")
    try:
        api.finish_register()
    except ApiError as error:
        if b"Extension.InvalidEventType" not in error.body:
            raise
        api.send_register(name, '["SHUTDOWN"]')
        api.finish_register()
        return True
    return managed


def _sit_out(api: LambdaApi) -> None:
    """Answer for the extension and do nothing else, until SHUTDOWN."""
    while True:
        try:
            if not api.waiting:
                api.send_next()
            if b'"SHUTDOWN"' in api.receive_event():
                return
        except ApiError:
            continue
        except Exception:  # no memory, perhaps: there may be some again
            time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[0])
