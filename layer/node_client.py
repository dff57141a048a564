"""AWS's runtime client for Node.js, ready to run: dist/aws-lambda-ric, which the wheel brings.

It is aws-lambda-ric as npm has it, compiled by our compiler: npm would compile it on the user's machine, in minutes.
Its addon speaks Node-API alone, so that one file serves each version of Node.js on an architecture, with glibc.

Version 4 has no callbacks any more, as Lambda from nodejs24.x on. For older runtimes version 3's JavaScript is beside
it, with the same addon: it has the same C++.

As npm compiles it, but for two things: libc++ instead of libstdc++, and no exceptions in C++. Where the client has no
memory left, the process aborts; with exceptions it would end by an exception without a handler.

Exit codes: 0 built, 1 it could not be: one line says why.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import requests

from .__main__ import default_cache
from .errors import BuildError
from .pins import ARCHITECTURES, AWS_LAMBDA_CPP, CURL, GLIBC
from .source import TIMEOUT_S
from .toolchain import COMPILER_FLAGS, Toolchain
from .toolchain import LOCK as COMPILER_LOCK

NAME = "aws-lambda-ric"
"""Name of the package at npm, and of the folder in dist."""
PLACE = f"node_modules/{NAME}"
"""Folder of index.mjs, index-3.mjs and rapid-client.node, below a folder for each of Lambda's architectures. npm
has it so too, and so it is not taken for the user's code."""
OLDER = f"{NAME}-3"
"""Its version 3, by its name in the lock."""
PACKAGES = (NAME, OLDER, "node-addon-api", "node-api-headers")
"""What is compiled: client, the C++ over Node-API, and Node-API's headers. Of version 3 the JavaScript is taken."""
LOCK = Path(__file__).parents[1] / "workbench/truemem_workbench/local/configuration/node/package-lock.json"
"""Has version and hash of each package. npm installs the same client by it where this build is not there."""
START = LOCK.with_name("start.mjs")
"""The end of version 3's script."""
LIBCXX = Path(__file__).with_suffix(".cpp")

OPTIMIZED = ("-O2", "-g0", "-fPIC", "-ffunction-sections", "-fdata-sections", "-fvisibility=hidden")
CPP = (
    *("-std=c++23", "-fno-exceptions", "-fno-rtti", "-DNODE_ADDON_API_DISABLE_CPP_EXCEPTIONS", "-DCURL_STATICLIB"),
    *("-DAWS_LAMBDA_LOG=0", "-D_LIBCPP_BUILDING_LIBRARY", "-D_LIBCXXABI_BUILDING_LIBRARY"),
    *("-DLIBCXX_BUILDING_LIBCXXABI", "-Iempty", "-Inode-api-headers/include", "-Inode-addon-api", "-Icpp/include"),
    "-Icurl/include",
)
LIBCURL = (
    *("-DBUILDING_LIBCURL", "-DCURL_STATICLIB", "-DCURL_HIDDEN_SYMBOLS", "-DHAVE_CONFIG_H"),
    *("-Iconfigured", "-Icurl/include", "-Icurl/lib"),
)
LINKED = ("-shared", "-s", "-Wl,--gc-sections", "-Wl,--version-script=exported")
EXPORTED = "{ global: napi_register_module_v1; node_api_module_get_api_version_v1; local: *; };\n"
"""All else stays inside: Node.js has a C++ library of its own."""
ADDON = "rapid-client.cc"
SOURCES = (f"{NAME}/src/native/{ADDON}", "cpp/src/runtime.cpp", "cpp/src/logging.cpp", "version.cpp")
NOT_USED = ("uv.h", "v8.h", "node.h")
"""Headers that rapid-client.cc includes, and takes nothing from."""

# curl's configure takes 45 s with our compiler. This is what it has found for x86_64 with the options of the client's
# scripts/preinstall.sh, of what curl's source reads; arm64 differs in nothing.
DISABLED = """
    ALTSVC COOKIES CRYPTO_AUTH DICT DOH FILE FTP GETOPTIONS GOPHER HSTS HTTP_AUTH IMAP LDAP LDAPS MIME MQTT NETRC
    PARSEDATE POP3 PROGRESS_METER PROXY RTSP SHUFFLE_DNS SMTP SOCKETPAIR TELNET TFTP VERBOSE_STRINGS
""".split()  # noqa: SIM905 - one name a line would be a page
FOUND = """
    ALARM ARPA_INET_H ASSERT_H BASENAME BOOL_T BUILTIN_AVAILABLE CLOCK_GETTIME_MONOTONIC ERRNO_H FCNTL_H
    FCNTL_O_NONBLOCK FNMATCH FREEADDRINFO GETADDRINFO GETADDRINFO_THREADSAFE GETEUID GETHOSTBYNAME GETHOSTBYNAME_R
    GETHOSTBYNAME_R_6 GETHOSTNAME GETIFADDRS GETPEERNAME GETPWUID GETPWUID_R GETSOCKNAME GETTIMEOFDAY GMTIME_R
    IFADDRS_H IF_NAMETOINDEX INET_NTOP INET_PTON IOCTL_FIONBIO IOCTL_SIOCGIFADDR LIBGEN_H LINUX_TCP_H LONGLONG
    MSG_NOSIGNAL NETDB_H NETINET_IN_H NETINET_TCP_H NET_IF_H POLL_FINE POLL_H POSIX_STRERROR_R PWD_H RECV SELECT SEND
    SETJMP_H SIGACTION SIGNAL SIGNAL_H SIGSETJMP SOCKET SOCKETPAIR STDBOOL_H STRDUP STRERROR_R STRINGS_H STRING_H
    STRTOK_R STRTOLL STRUCT_SOCKADDR_STORAGE STRUCT_TIMEVAL SUSECONDS_T SYS_IOCTL_H SYS_PARAM_H SYS_POLL_H
    SYS_SELECT_H SYS_SOCKET_H SYS_STAT_H SYS_TIME_H SYS_TYPES_H SYS_UN_H SYS_WAIT_H UNISTD_H VARIADIC_MACROS_C99
    VARIADIC_MACROS_GCC
""".split()  # noqa: SIM905
TYPES = {
    "OS": '"linux"', "STDC_HEADERS": "1", "CURL_SA_FAMILY_T": "sa_family_t", "GETHOSTNAME_TYPE_ARG2": "size_t",
    "RECV_TYPE_RETV": "ssize_t", "RECV_TYPE_ARG1": "int", "RECV_TYPE_ARG2": "void *", "RECV_TYPE_ARG3": "size_t",
    "RECV_TYPE_ARG4": "int", "SEND_TYPE_RETV": "ssize_t", "SEND_QUAL_ARG2": "const", "SEND_TYPE_ARG1": "int",
    "SEND_TYPE_ARG2": "void *", "SEND_TYPE_ARG3": "size_t", "SEND_TYPE_ARG4": "int", "SIZEOF_CURL_OFF_T": "8",
    "SIZEOF_LONG": "8", "SIZEOF_OFF_T": "8", "SIZEOF_SIZE_T": "8", "SIZEOF_TIME_T": "8",
}  # fmt: skip


def locked(name: str) -> dict[str, str]:
    """The package's entry in the lock: `name` at npm, `version`, `integrity` (a hash), `license`."""
    entry: dict[str, str] = json.loads(LOCK.read_text())["packages"][f"node_modules/{name}"]
    return {"name": name, **entry}


def key() -> str:
    """Hash of everything that goes into the build."""
    pinned = "".join(locked(name)["integrity"] for name in PACKAGES)
    files = (COMPILER_LOCK, Path(__file__), LIBCXX, START)
    parts = (pinned, *(file.read_text() for file in files), COMPILER_FLAGS, GLIBC)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def build(cache: Path, toolchain: Toolchain, say: Callable[[str], None]) -> Path:
    """A folder with the client for each of Lambda's architectures (PLACE), and `licences`: from the cache, or made for
    it. Raises BuildError."""
    kept = cache / f"{NAME}-{locked(NAME)['version']}-{key()}"
    if kept.exists():
        return kept
    with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as folder:
        work = Path(folder)
        say(f"downloading {NAME} {locked(NAME)['version']} from npm")
        for name in PACKAGES:
            _unpack(downloaded(name), work / name)
        ours, older = work / NAME, work / OLDER
        if (ours / "src/native" / ADDON).read_bytes() != (older / "src" / ADDON).read_bytes():
            raise BuildError(f"{ADDON} of {OLDER} is not that of {NAME}: it needs an addon of its own")
        _unpack((ours / "deps" / "curl.tar.xz").read_bytes(), work / "curl", top="")
        _unpack((ours / "deps" / "aws-lambda-cpp.tar.xz").read_bytes(), work / "cpp", top="")
        _configure(work)
        say("compiling it for each architecture")
        made = work / "made"
        with ThreadPoolExecutor() as threads:
            addons = list(threads.map(lambda machine: _compile(work, machine, toolchain), ARCHITECTURES.values()))
        for name, addon in zip(ARCHITECTURES, addons, strict=True):
            (made / name / PLACE).mkdir(parents=True)
            shutil.copyfile(ours / "index.mjs", made / name / PLACE / "index.mjs")
            script = (older / "dist" / "index.mjs").read_text() + START.read_text()
            (made / name / PLACE / "index-3.mjs").write_text(script)
            shutil.copyfile(addon, made / name / PLACE / "rapid-client.node")
        (made / "licences").mkdir()
        for name, text in _licences(work, toolchain).items():
            (made / "licences" / name).write_text(text)
        made.replace(kept)
    return kept


@functools.cache
def registry() -> str:
    """The address that npm is set to, or NPM_CONFIG_REGISTRY's. Raises BuildError if there is none."""
    said = os.environ.get("NPM_CONFIG_REGISTRY", "")
    if not said and (npm := shutil.which("npm")):
        asked = [npm, "config", "get", "registry"]
        said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    if not said.startswith("http"):
        raise BuildError("npm is not here, and says where packages are. Install it, or try NPM_CONFIG_REGISTRY=URL")
    return said.rstrip("/")


def downloaded(name: str) -> bytes:
    """The package as npm has it. Raises BuildError if it is not the one of the lock."""
    entry = locked(name)
    url = f"{registry()}/{entry['name']}/-/{entry['name']}-{entry['version']}.tgz"
    try:
        answer = requests.get(url, timeout=TIMEOUT_S)
        answer.raise_for_status()
    except requests.RequestException as error:
        raise BuildError(f"{url} cannot be downloaded: {error}. A mirror of npm: NPM_CONFIG_REGISTRY=URL") from None
    found = f"sha512-{base64.b64encode(hashlib.sha512(answer.content).digest()).decode()}"
    if found != entry["integrity"]:
        raise BuildError(f"{url} is {found}, and {LOCK.name} has {entry['integrity']}")
    return answer.content


def _unpack(archive: bytes, folder: Path, top: str = "package/") -> None:
    """Unpack what is below `top`, without the files in which macOS keeps attributes."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for member in members:
            name = member.name.removeprefix("./").removeprefix(top)
            if member.isfile() and not Path(name).name.startswith("._"):
                content = members.extractfile(member)
                assert content is not None
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content.read())


def _configure(work: Path) -> None:
    """Write what the packages' own scripts would write: curl's configure, and cmake."""
    lines = [f"#define CURL_DISABLE_{name} 1" for name in DISABLED] + [f"#define HAVE_{name} 1" for name in FOUND]
    lines += [f"#define {name} {meaning}" for name, meaning in TYPES.items()]
    (work / "configured").mkdir()
    (work / "configured" / "curl_config.h").write_text("\n".join([*lines, ""]))
    (work / "empty").mkdir()
    for name in NOT_USED:
        (work / "empty" / name).touch()
    (work / "exported").write_text(EXPORTED)
    shutil.copy(LIBCXX, work)
    version = re.findall(r"^ +VERSION ([\d.]+)$", (work / "cpp" / "CMakeLists.txt").read_text(), re.MULTILINE)[0]
    (work / "version.cpp").write_text(
        f'namespace aws {{ namespace lambda_runtime {{ char const* get_version() {{ return "{version}"; }} }} }}\n'
    )


def _compile(work: Path, machine: str, toolchain: Toolchain) -> Path:
    """The addon for this machine. All paths are relative to `work`: none gets into the file."""
    cc = toolchain.compiler_for_glibc(machine)
    parts, addon = f"{machine}.o", f"{machine}.node"
    library = [f"-I{toolchain.library / each}" for each in ("libcxx/src", "libcxx/src/include", "libcxx/libc")]
    library += [f"-I{toolchain.library / 'libcxxabi' / each}" for each in ("src", "include")]
    curl = sorted(str(path.relative_to(work)) for path in (work / "curl" / "lib").rglob("*.c"))
    # -lc++ brings the headers; with -c it brings no more
    _run([cc, *OPTIMIZED, *CPP, *library, *SOURCES, LIBCXX.name, "-lc++", "-c", "-o", parts], work, toolchain)
    _run([cc, *OPTIMIZED, *LIBCURL, *LINKED, *curl, parts, "-o", addon], work, toolchain)
    return work / addon


def _run(command: list[str], work: Path, toolchain: Toolchain) -> None:
    done = subprocess.run(
        command, cwd=work, env=toolchain.environment(), capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr.strip()]
        raise BuildError(f"compiling {NAME} failed: {errors[0]}")


def _licences(work: Path, toolchain: Toolchain) -> dict[str, str]:
    """By file name. THIRD-PARTY-LICENSES has those of curl, aws-lambda-cpp and node-addon-api."""
    files = {name: work / NAME / name for name in ("LICENSE", "NOTICE", "THIRD-PARTY-LICENSES")}
    files["node-addon-api-LICENSE.txt"] = work / "node-addon-api" / "LICENSE.md"
    files["node-api-headers-LICENSE.txt"] = work / "node-api-headers" / "LICENSE"
    files["libcxx-LICENSE.txt"] = toolchain.library / "libcxx" / "LICENSE.TXT"
    files["zig-LICENSE.txt"] = toolchain.zig.with_name("LICENSE")
    texts = {name: path.read_text() for name, path in files.items()}
    for stated in (f"aws-lambda-cpp; version {AWS_LAMBDA_CPP} ", f"libcurl; version {CURL} "):
        if stated not in texts["THIRD-PARTY-LICENSES"]:
            raise BuildError(f"THIRD-PARTY-LICENSES of {NAME} has no {stated!r}: correct layer/pins.py")
    return texts


@click.command(help=__doc__)
@click.option("--output", type=click.Path(path_type=Path), default=Path("dist"), show_default=True)
@click.option("--cache", type=click.Path(path_type=Path), default=default_cache, help="Default: ~/.cache/truemem")
def main(output: Path, cache: Path) -> None:
    """Build the folder aws-lambda-ric in `output`. Exits 1 with one line that says why."""
    began = time.monotonic()

    def say(what: str) -> None:
        click.echo(f"[{time.monotonic() - began:4.0f} s] {what}", err=True)

    try:
        cache = cache.resolve()
        cache.mkdir(parents=True, exist_ok=True)
        made = build(cache, Toolchain(cache, say), say)
        target = output / NAME
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(made, target)
    except (BuildError, OSError) as error:
        click.echo(f"Node.js's runtime client not built: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
