"""Gets headless Chromium and drives it over its DevTools pipe, for tests of the page.

It needs no port and no driver: the protocol is JSON over two pipes
(https://chromedevtools.github.io/devtools-protocol/). Without Chromium on the path, Debian's packages of it are
unpacked but not installed, so it needs no root. `python -m testing.browser` prints its path.
"""

from __future__ import annotations

import base64
import json
import os
import re
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import matplotlib

from .installs import CACHE, Missing, begin, finish, ready, run

PATIENCE_S = 30.0
FLAGS = (  # noqa: SIM905
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --disable-dev-shm-usage --disable-extensions --hide-scrollbars"
    " --remote-debugging-pipe"
).split()

LAUNCH = """
import fcntl, os, sys
ours = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]  # out of the way: they may be 4 and 3
for there, number in zip(ours, (3, 4)):
    os.dup2(there, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads from descriptor 3 and writes to 4."""

FONTS = """<?xml version="1.0"?>
<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir>
{families}</fontconfig>
"""
FAMILY = "<alias><family>{}</family><prefer><family>{}</family></prefer></alias>\n"
FAMILIES = {"system-ui": "DejaVu Sans", "sans-serif": "DejaVu Sans", "monospace": "DejaVu Sans Mono"}


class Browser:
    """One tab."""

    def __init__(self, program: Path, environment: Mapping[str, str] | None = None) -> None:
        self.program = program
        self.environment = environment or {}
        self.complaints: list[str] = []
        """Errors in the console, exceptions, violations of the page's own policy."""
        self.requests: list[str] = []
        """Requests of the page, without the page itself and `data:`."""
        self._number = 0
        self._buffer = b""
        self._session: str | None = None
        self._page = ""

    def __enter__(self) -> Browser:
        self._folder = TemporaryDirectory(ignore_cleanup_errors=True)
        home = Path(self._folder.name)
        config = home / "fonts.conf"
        families = "".join(FAMILY.format(*each) for each in FAMILIES.items())
        fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"  # the same on every machine
        config.write_text(FONTS.format(fonts=fonts, cache=home / "fonts", families=families))
        to_child, self._to = os.pipe()
        self._from, from_child = os.pipe()
        command = [str(self.program), *FLAGS, f"--user-data-dir={home / 'profile'}"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(to_child), str(from_child), *command],
            pass_fds=(to_child, from_child),
            env={**os.environ, "HOME": str(home), "FONTCONFIG_FILE": str(config), **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._from, selectors.EVENT_READ)
        try:
            target = self.do("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.do(f"{domain}.enable")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._selector.close()
        os.close(self._to)  # the end of its pipe ends it
        os.close(self._from)
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result. Raises AssertionError if the browser refuses."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while (answer := self._next()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert self._selector.select(PATIENCE_S), f"{self.program} said nothing for {PATIENCE_S:.0f} s"
            data = os.read(self._from, 1 << 20)
            assert data, f"{self.program} ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed

    def _note(self, event: Mapping[str, Any]) -> None:
        said = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                thrown = said["exceptionDetails"]
                self.complaints.append(thrown.get("exception", {}).get("description") or thrown["text"])
            case "Runtime.consoleAPICalled" if said["type"] in ("error", "assert"):
                self.complaints.append(" ".join(str(each.get("value")) for each in said["args"]))
            case "Log.entryAdded" if said["entry"]["level"] == "error":
                self.complaints.append(said["entry"]["text"])
            case "Network.requestWillBeSent" if said["request"]["url"].split("#")[0] != self._page:
                if not said["request"]["url"].startswith(("data:", "blob:")):
                    self.requests.append(said["request"]["url"])

    def open(self, path: Path, *, width: int = 1280, height: int = 860, dark: bool = False, scale: float = 1) -> None:
        """Open a file, and wait until its script has drawn."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.do("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.do("Emulation.setEmulatedMedia", features=[scheme])
        self._page = path.resolve().as_uri()
        self.do("Page.navigate", url="about:blank")
        self.do("Page.navigate", url=self._page)
        self.until("document.documentElement.dataset.ready !== undefined")

    def js(self, expression: str) -> Any:
        """Evaluate JavaScript and return its value after two frames, so that all earlier changes are drawn."""
        wrapped = (
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => "
            f"done(JSON.stringify({expression}) ?? 'null'))))"
        )
        answer = self.do("Runtime.evaluate", expression=wrapped, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return json.loads(answer["result"]["value"])

    def until(self, condition: str) -> None:
        """Wait until an expression is true in the page, or in the one that it leads to."""
        end = time.monotonic() + PATIENCE_S
        while not self._is_so(condition):
            assert time.monotonic() < end, f"{condition}: not within {PATIENCE_S:.0f} s; {self.complaints}"
            time.sleep(0.05)

    def _is_so(self, condition: str) -> bool:
        try:
            return bool(self.js(f"Boolean({condition})"))
        except AssertionError as error:
            if "-32000" not in str(error):  # the page has gone meanwhile
                raise
            return False

    def text(self, selector: str) -> str:
        """The visible text."""
        return str(self.js(f"document.querySelector({json.dumps(selector)}).innerText"))

    def place(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width, height in the window."""
        found = self.js(f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()")
        return found["left"], found["top"], found["width"], found["height"]

    def click(self, selector: str) -> None:
        self.js(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'nearest'}})")
        left, top, width, height = self.place(selector)
        x, y = left + width / 2, top + height / 2
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)

    def mouse(self, kind: str, x: float, y: float) -> None:
        pressed = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.do("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)

    def drag(self, x: float, to: float, y: float) -> None:
        self.mouse("mousePressed", x, y)
        for share in (0.3, 0.7, 1.0):
            held = {"button": "left", "buttons": 1}
            self.do("Input.dispatchMouseEvent", type="mouseMoved", x=x + (to - x) * share, y=y, **held)
        self.mouse("mouseReleased", to, y)

    def key(self, name: str) -> None:
        text = {"text": name} if len(name) == 1 else {}
        self.do("Input.dispatchKeyEvent", type="keyDown", key=name, **text)
        self.do("Input.dispatchKeyEvent", type="keyUp", key=name)

    def picture(self, path: Path) -> None:
        """The whole page, as PNG."""
        size = self.do("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.do("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def printed(self) -> bytes:
        """The page as PDF."""
        return base64.b64decode(self.do("Page.printToPDF", printBackground=True)["data"])


CHROMIUM = CACHE / "chromium"
CHROMIUM_PACKAGE = "chromium"


def chromium() -> tuple[Path, Mapping[str, str]]:
    """The program, and the environment that it needs. Raises Missing."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return Path(found), {}
    if not ready(CHROMIUM, CHROMIUM_PACKAGE):
        _unpack()
    libraries = {str(path.parent) for path in CHROMIUM.glob("unpacked/**/*.so*")}
    program = CHROMIUM / "unpacked" / "usr" / "lib" / "chromium" / "chromium"
    return program, {"LD_LIBRARY_PATH": ":".join(sorted(libraries))}


def _unpack() -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise Missing("there is no Chromium on the path, and no apt-get")
    begin(CHROMIUM)
    planned = run(["apt-get", "--simulate", "--no-install-recommends", "install", CHROMIUM_PACKAGE])
    names: list[str] = re.findall(r"^Inst (\S+)", planned, re.MULTILINE)
    archives = CHROMIUM / "archives"
    archives.mkdir()
    run(["sh", "-c", 'cd "$1" && shift && apt-get -qq download "$@"', "sh", str(archives), *names])
    for archive in sorted(archives.iterdir()):
        run(["dpkg", "--extract", str(archive), str(CHROMIUM / "unpacked")])
    shutil.rmtree(archives)
    finish(CHROMIUM, CHROMIUM_PACKAGE)


if __name__ == "__main__":
    print(*chromium())
