"""A Node.js handler through AWS's own runtime client, aws-lambda-ric: ours, compiled beforehand, or npm's.

Two versions of it, because Lambda's runtimes differ. Up to nodejs22.x a handler may have a callback, and its answer
waits for an empty event loop. From nodejs24.x on, and on Managed Instances, a handler with a callback is refused
(docs.aws.amazon.com/lambda/latest/dg/nodejs-handler.html; aws/aws-lambda-nodejs-runtime-interface-client, issue 137).
Version 3 of the client is the former, version 4 the latter.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from ...support import docs_link
from ...support.bad_input import BadInput
from ...support.cache import cache, made_once
from ...support.platform_facts import RUNTIMES as PLATFORM
from ...support.platform_facts import runtimes, version
from .function import Function

OLDEST_MAJOR = 18
"""What AWS's client and the heap probe need."""
FIRST_WITHOUT_CALLBACKS = 24
RUNTIMES = tuple(runtimes("nodejs", (OLDEST_MAJOR,)))
USUAL_RUNTIME = [name for name in RUNTIMES if PLATFORM[name].deprecated][-1]
"""The newest that AWS has said the end of: a release with long-term support."""
LOCK = Path(__file__).with_name("node")  # folder of package.json and of the lock file, with a hash of each package
SUFFIXES = (".js", ".mjs", ".cjs")
BUILD_TOOLS = ("npm", "cmake", "make", "g++", "xz", "python3")
"""Programs that npm needs for aws-lambda-ric, because it compiles a part of itself."""
SHIPPED = (Path(__file__).with_name("aws-lambda-ric"), Path(__file__).parents[4] / "dist" / "aws-lambda-ric")
"""Where the client is that `make layer` compiles: in a wheel, and in a checkout."""
_START = (
    "case $NODE_OPTIONS in"
    " *--max_semi_space_size* | *--max_old_space_size* | *--max-semi-space-size* | *--max-old-space-size*) ;;"
    " *) young=$((AWS_LAMBDA_FUNCTION_MEMORY_SIZE / 10)) old=$((AWS_LAMBDA_FUNCTION_MEMORY_SIZE - young));"
    ' set -- --max-semi-space-size=$((young / 6)) --max-old-space-size=$old "$@" ;; esac;'
    ' exec "$0" --expose-gc --max-http-header-size=81920 "$@"'
)
"""As Lambda starts Node.js. Its bootstrap leaves both sizes out where NODE_OPTIONS name one of them: the command line
would beat these. V8 then chooses the other by the memory there is (1 MiB for each half of the young generation at
512 MB, where Lambda gives 8: with 1, JSON took 13 to 20 % more CPU time in Node.js 20 to 24).

Sources: the bootstrap of nodejs20.x (gist.github.com/davidjb/432ea4e1c89f399ec412270539fe126f) and of nodejs24.x
(dev.to/wonderfulsoap, "Deep Dive into AWS Lambda (3)"), read out of AWS's images; the command line of a function of
1,024 MB in nodejs20.x: `--expose-gc --max-http-header-size=81920 --max-semi-space-size=17 --max-old-space-size=922`, as
a wrapper got it. Images before Node.js 20 gave the sizes always (those of 14 and 18 that we know)."""
INSTEAD = f"or run it through a bootstrap ({docs_link.command('local-lambda#nodejs')})"


def from_node_handler(
    spec: str, runtime: str | None, notify: Callable[[str], None], *, deployed: str | None = None
) -> Function:
    """Make a Function from `path/index.mjs:handler`. It runs as on the runtime, such as nodejs24.x, in its folder.

    Without a runtime it is that of the node on the path, also where Lambda has none of that version. `deployed` is the
    runtime that it has in Lambda, if that is known: AWS's client goes by it. Where `make layer` has not compiled the
    client for this node, npm does, once and for minutes: `notify` gets a sentence about it. Raises BadInput.
    """
    name, _, handler = spec.rpartition(":")
    path = Path(name)
    if path.suffix not in SUFFIXES or "." in path.stem:
        raise BadInput(f"{spec} is no Node.js handler. Try PATH/index.mjs:handler, or leave --runtime out")
    if not path.is_file():
        raise BadInput(f"no file {name}. Try PATH/index.mjs:handler")
    if not re.fullmatch(r"[\w$]+", handler):
        raise BadInput(f"{handler!r} is no name of an export of {name}. Try {name}:handler")
    # AWS's client is told no ending, and takes the first of these that is there
    taken = next(path.with_suffix(each) for each in SUFFIXES if path.with_suffix(each).is_file())
    if taken != path:
        raise BadInput(
            f"Lambda runs {taken.name} for the handler {path.stem}.{handler}, not {path.name} beside it. Try"
            f" {taken}:{handler}, or rename one"
        )
    node, runtime = _node(runtime)
    client = installed_client(node, notify, deployed or runtime)
    path = path.resolve()
    return Function(
        command=("/bin/sh", "-c", _START, str(node), str(client), f"{path.stem}.{handler}"),
        task_root=path.parent,
        handler=f"{path.stem}.{handler}",
        runtime=runtime,
        needs=(path.parent, path, node, client),
    )


def installed_client(node: Path, notify: Callable[[str], None] = lambda _: None, runtime: str | None = None) -> Path:
    """The script of aws-lambda-ric for this runtime, or else its newest, which this node can run: ours, else one that
    npm has installed or now does. Raises BadInput."""
    has_callbacks = runtime is not None and version(runtime) < (FIRST_WITHOUT_CALLBACKS,)
    place = Path("node_modules", "aws-lambda-ric", "index-3.mjs" if has_callbacks else "index.mjs")
    for folder in SHIPPED:
        script = folder / platform.machine().replace("aarch64", "arm64") / place
        if script.is_file() and _loads(script.with_name("rapid-client.node"), node):
            return script
    release = _output([str(node), "--version"]).strip()
    folder = cache() / f"aws-lambda-ric-3-4-node{release}"
    script = folder / place
    if script.is_file():
        return script
    why = f"AWS's runtime client is not compiled for {node} (Node.js {release}, {platform.machine()})"
    if lacking := [tool for tool in BUILD_TOOLS if shutil.which(tool) is None]:
        raise BadInput(f"{why}, and npm needs {', '.join(lacking)} to do that. Install it, {INSTEAD}")
    notify(f"{why}: npm does that now, once, into {folder}. It takes 1 to 5 minutes, and needs the network")
    with made_once(folder) as making:
        for file in LOCK.iterdir():
            shutil.copy(file, making)
        _output(["npm", "ci", "--no-audit", "--no-fund", "--omit=dev", "--ignore-scripts", "--prefix", str(making)])
        _output(["npm", "rebuild", "aws-lambda-ric", "--prefix", str(making)])  # of version 3 the script is enough
        older = making / "node_modules" / "aws-lambda-ric-3" / "dist" / "index.mjs"
        (making / place).with_name("index-3.mjs").write_text(older.read_text() + (making / "start.mjs").read_text())
    return script


def _loads(addon: Path, node: Path) -> bool:
    """True if this node can load it. One that is linked against musl, or is of another architecture, cannot."""
    command = [str(node), "-e", "require(process.argv[1])", str(addon)]
    variables = {**os.environ, "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9", "NODE_OPTIONS": ""}  # the first is read at once
    return subprocess.run(command, env=variables, capture_output=True, check=False).returncode == 0


def _node(runtime: str | None) -> tuple[Path, str]:
    """The node on the path, and its runtime, which must be the one that is asked for, if any. Raises BadInput."""
    found = shutil.which("node")
    asked = runtime or USUAL_RUNTIME
    wanted = version(asked)[0]
    if found is None:
        who = f"--runtime {runtime}" if runtime else "A handler in Node.js"
        raise BadInput(f"{who} needs Node.js, and no node is on the PATH. Install Node.js {wanted}, {INSTEAD}")
    said = _output([found, "--version"]).strip().removeprefix("v")
    own = f"nodejs{said.partition('.')[0]}.x"
    if version(own) < (OLDEST_MAJOR,):
        raise BadInput(
            f"{found} is {said}, and {OLDEST_MAJOR} is the oldest that can run. Put Node.js {wanted} first on the PATH"
        )
    if runtime not in (None, own):
        fix = f"Try --runtime {own}" if own in RUNTIMES else f"Put Node.js {wanted} first on the PATH"
        raise BadInput(f"--runtime {runtime} needs Node.js {wanted}, and {found} is {said}. {fix}")
    return Path(found).resolve(), own


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        telling = [line for word in ("not found", "failed") for line in said if word in line]  # npm says much more
        why = next(iter([*telling, *said]), "it said nothing")
        raise BadInput(f"{' '.join(command[:2])} failed: {why}. Fix that, {INSTEAD}")
    return done.stdout
