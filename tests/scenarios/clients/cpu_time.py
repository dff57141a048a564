"""A handler that uses CPU time in one way or another, and answers how much: of its process, and of children that it has
waited for since the invocation before."""

import os
import resource
import subprocess
import sys
import threading
import time
from typing import Any

MS = 60
CHILD = f"import time\nwhile time.process_time() < {MS / 1000}: pass"
zombies: list[subprocess.Popen[bytes]] = []


def burn() -> None:
    end = time.thread_time() + MS / 1000
    while time.thread_time() < end:
        pass


def used_ms() -> float:
    waited = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() * 1000 + (waited.ru_utime + waited.ru_stime) * 1000


def until_ended(child: subprocess.Popen[bytes]) -> None:
    """It stays a zombie. Its pipe is closed some time before that."""
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def handler(event: dict[str, Any], context: object) -> dict[str, float]:
    before = used_ms()
    lived = 0.0
    match event["do"]:
        case "burn":
            burn()
        case "threads":
            threads = [threading.Thread(target=burn) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        case "child":
            subprocess.run([sys.executable, "-c", CHILD], check=True)
        case "child that lives":
            zombies.append(
                subprocess.Popen(
                    [sys.executable, "-c", CHILD + "\nprint(flush=True)\ninput()"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            assert zombies[-1].stdout is not None
            zombies[-1].stdout.readline()
            lived = MS
        case "let it end":
            assert zombies[-1].stdin is not None
            zombies[-1].stdin.close()
            until_ended(zombies[-1])
        case "child that is left":
            zombies.append(subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE))
            until_ended(zombies[-1])
            lived = MS
        case "orphan":
            read, write = os.pipe()
            if not os.fork():
                if not os.fork():
                    burn()
                os._exit(0)
            os.close(write)
            os.wait()
            os.read(read, 1)
            os.close(read)
        case "wait":
            zombies.pop().wait()
            lived = -MS
    return {"cpuMs": used_ms() - before + lived}
