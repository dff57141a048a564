"""CPython as a static library for each architecture: configured, compiled once, kept by the hash of what went in."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import source
from .errors import BuildError
from .pins import ARCHITECTURES, PYTHON, SOURCE_SHA256
from .toolchain import COMPILER_FLAGS, LOCK, Toolchain
from .unused import looked_up

MINOR_VERSION = PYTHON.rpartition(".")[0]

LIBRARY = f"libpython{MINOR_VERSION}.a"

NATIVE = "x86_64"
"""The first that is built; its interpreter runs the freezing for all: the marshal format is the version's alone."""

UNWANTED_MODULES = """
    _asyncio _bisect _blake2 _bz2 _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw
    _contextvars _csv _ctypes _ctypes_test _curses _curses_panel _datetime _dbm _decimal _elementtree _gdbm
    _hashlib _heapq _interpchannels _interpqueues _interpreters _lsprof _lzma _md5 _multibytecodec
    _multiprocessing _opcode _pickle _posixshmem _posixsubprocess _queue _random _sha1 _sha2 _sha3 _sqlite3 _ssl
    _statistics _tkinter _uuid _zoneinfo cmath grp mmap pyexpat readline resource syslog termios unicodedata
    xxsubtype zlib
""".split()  # noqa: SIM905 - one name a line would be a page
"""Extension modules that nobody here imports. (What is missing that somebody does import, `freeze` says.)"""

SMALL_POOLS = "-DWITH_PYMALLOC_RADIX_TREE=0"
"""Small arenas of small pools (Include/internal/pycore_obmalloc.h): the tree that maps large ones takes 0.6 MiB. Our
own C that looks into them needs it too."""

OPTIMISED = "-DNDEBUG -fwrapv -g0"
SELDOM_RUN = """
    Modules/_codecsmodule Modules/_collectionsmodule Modules/_threadmodule Modules/fcntlmodule Modules/selectmodule
    Modules/socketmodule Modules/timemodule Objects/bytearrayobject Objects/codeobject Objects/complexobject
    Objects/exceptions Objects/frameobject Objects/genericaliasobject Objects/memoryobject Objects/moduleobject
    Objects/odictobject Objects/rangeobject Objects/structseq Objects/typevarobject Objects/unionobject
    Objects/weakrefobject Python/_warnings Python/bootstrap_hash Python/codecs Python/context Python/crossinterp
    Python/dtoa Python/fileutils Python/formatter_unicode Python/getargs Python/hamt Python/import Python/initconfig
    Python/instrumentation Python/legacy_tracing Python/marshal Python/modsupport Python/preconfig Python/pylifecycle
    Python/pystrtod Python/pythonrun Python/pytime Python/specialize Python/sysmodule Python/traceback
    Python/tracemalloc
""".split()  # noqa: SIM905 - as above
"""Compiled for size: of the instructions of an invocation each has less than 0.15 %, most have none."""

LEAN = "-ffunction-sections -fdata-sections -fno-unwind-tables -fomit-frame-pointer"
"""For all that is linked: the linker, and `unused`, leave out what nothing refers to. Nobody walks the stack."""

CONFIGURE = (
    *("--prefix=/opt", "--disable-shared", "--disable-test-modules", "--without-ensurepip", "--without-doc-strings"),
    *("--without-mimalloc", "--without-readline", "--with-builtin-hashlib-hashes="),
    f"OPT={OPTIMISED} -O2",
    f"CFLAGS={LEAN} {SMALL_POOLS} -Wno-date-time",
    "LDFLAGS=-static -s -Wl,--gc-sections",
    "LINKFORSHARED= ",
)

PROBES = {
    "PKG_CONFIG": "false",  # it would find the build machine's own libraries
    "MODULE_BUILDTYPE": "static",
    "ac_cv_lib_z_gzread": "no",
    "ac_cv_header_zlib_h": "no",
    # Where configure would have to run what it compiled, or is misled by zig's own flags:
    "ac_cv_aligned_required": "no",
    "ac_cv_working_tzset": "yes",
    "ac_cv_file__dev_ptmx": "yes",
    "ac_cv_file__dev_ptc": "no",
    "ac_cv_buggy_getaddrinfo": "no",
    "ac_cv_computed_gotos": "yes",
    "ac_cv_broken_sem_getvalue": "no",
    "ac_cv_pthread_system_supported": "yes",
    **{f"py_cv_module_{name}": "n/a" for name in UNWANTED_MODULES},
}

SAME_EVERYWHERE = tuple(
    f"ac_cv_{kind}_" for kind in ("header", "func", "have_decl", "type", "member", "sizeof", "alignof", "lib")
)
"""What configure need not find out a second time: musl's answers, the same on each 64-bit little-endian machine. 40 s
saved. (What differs, such as the sign of wchar_t, goes by other names.)"""

NEVER_CALLED = (
    *("frozen.o", "getpath.o", "config.o"),  # the tables that freeze.py writes take their place, and main.c
    *("parser.o", "pegen.o", "pegen_errors.o", "action_helpers.o", "string_parser.o"),
    *("lexer.o", "state.o", "buffer.o", "file_tokenizer.o", "readline_tokenizer.o", "string_tokenizer.o"),
    *("utf8_tokenizer.o", "helpers.o", "Python-tokenize.o", "Python-ast.o", "ast.o", "ast_opt.o", "ast_unparse.o"),
    *("asdl.o", "compile.o", "symtable.o", "flowgraph.o", "assemble.o", "instruction_sequence.o", "symtablemodule.o"),
)
"""Members of the library that are left out: its tables, and the compiler, which has nothing to compile (absent.c)."""


C_SOURCES = ("Modules", "Objects", "Objects/stringlib", "Python")


@dataclass(frozen=True)
class Build:
    """What is kept of one build of CPython."""

    folder: Path

    @property
    def include(self) -> Path:
        return self.folder / "Include"

    @property
    def library(self) -> Path:
        """The standard library's source."""
        return self.folder / "lib" / f"python{MINOR_VERSION}"

    @property
    def licence(self) -> Path:
        return self.folder / "LICENSE"

    @property
    def interpreter(self) -> Path:
        """Runs on the machine that builds."""
        return self.folder / NATIVE / "python"

    @property
    def looked_up(self) -> Path:
        """Names that C looks up, by spaces."""
        return self.folder / "looked_up"

    def archive(self, machine: str) -> Path:
        """What to link with."""
        return self.folder / machine / LIBRARY

    def configuration(self, machine: str) -> Path:
        """Folder of its pyconfig.h."""
        return self.folder / machine


def key() -> str:
    """Hash of everything that goes into the build."""
    parts = (SOURCE_SHA256, LOCK.read_text(), Path(__file__).read_text(), COMPILER_FLAGS)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def build(cache: Path, toolchain: Toolchain, say: Callable[[str], None], given: Path | None = None) -> Build:
    """From the cache, or made for it. Raises BuildError."""
    kept = Build(cache / f"cpython-{PYTHON}-{key()}")
    if kept.folder.exists():
        return kept
    tarball = source.fetch(cache, say, given)
    with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as name:
        work = Path(name)
        tree = work / "src"
        say("unpacking the source")
        source.unpack(tarball, tree)
        made = Build(work / "kept")
        for machine in ARCHITECTURES.values():
            _compile(tree, work / machine, machine, toolchain, say)
            _keep(work / machine, made.folder / machine, toolchain)
        sources = (file.read_text() for room in C_SOURCES for file in (tree / room).glob("*.[ch]"))
        made.looked_up.write_text(" ".join(sorted(looked_up(sources))))
        shutil.copytree(tree / "Include", made.include)
        shutil.copytree(tree / "Lib", made.library)
        shutil.copy(tree / "LICENSE", made.licence)
        made.folder.replace(kept.folder)
    return kept


def _compile(tree: Path, folder: Path, machine: str, toolchain: Toolchain, say: Callable[[str], None]) -> None:
    folder.mkdir()
    settings = {**PROBES, "CC": toolchain.compiler(machine), "AR": "zar", "RANLIB": "zranlib"}
    cross: list[str] = []
    answers = folder / "config.cache"
    if machine != NATIVE:
        known = (folder.parent / NATIVE / "config.cache").read_text().splitlines(keepends=True)
        answers.write_text("".join(line for line in known if line.startswith(SAME_EVERYWHERE)))
        cross = [f"--host={machine}-linux-musl", f"--build={NATIVE}-linux-gnu"]
        cross += [f"--with-build-python={folder.parent / NATIVE / 'python'}"]
    say(f"configuring CPython {PYTHON} for {machine}")
    pairs = [f"{name}={value}" for name, value in settings.items()]
    configure = os.path.relpath(tree / "configure", folder)  # as it is given here, it stands in the object files
    _run([configure, *CONFIGURE, f"--cache-file={answers}", *cross, *pairs], folder, toolchain, "configure")
    say(f"compiling CPython {PYTHON} for {machine}")
    wanted = ["python"] if machine == NATIVE else [LIBRARY]
    objects = " ".join(f"{name}.o" for name in SELDOM_RUN)
    (folder / "seldom_run").write_text(f"{objects}: OPT = {OPTIMISED} -Oz\n")
    command = ["make", f"-j{os.cpu_count() or 1}", "-f", "Makefile", "-f", "seldom_run"]
    _run([*command, *wanted], folder, toolchain, "make")


def _keep(built: Path, kept: Path, toolchain: Toolchain) -> None:
    kept.mkdir(parents=True)
    shutil.copy(built / LIBRARY, kept)
    _run(["zar", "d", LIBRARY, *NEVER_CALLED], kept, toolchain, "ar")
    shutil.copy(built / "pyconfig.h", kept)
    if kept.name == NATIVE:
        shutil.copy(built / "python", kept)


def _run(command: list[str], folder: Path, toolchain: Toolchain, what: str) -> None:
    log = folder / f"{what}.log"
    with log.open("w") as output:
        done = subprocess.run(
            command, cwd=folder, env=toolchain.environment(), stdout=output, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode:
        last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-1:]
        raise BuildError(f"{what} of CPython failed ({done.returncode}): {last[0] if last else 'it says nothing'}")
