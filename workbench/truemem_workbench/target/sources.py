"""A source that must be built before it can run, in TypeScript, Go or Java: what is built of it, and how."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..local.configuration.node_function import SUFFIXES
from ..support.bad_input import BadInput
from ..support.untrusted_text import parsed
from . import go_program
from .as_sam import BUNDLED

TYPESCRIPT = (".ts", ".mts", ".cts", ".tsx")
PROJECTS = ("package.json", "tsconfig.json")
MAVEN, GRADLE = "pom.xml", ("build.gradle", "build.gradle.kts")
SAM_TEMPLATES = ("template.yaml", "template.yml")
SAM_BUILD = ".aws-sam/build"
USUAL_OUTPUTS = ("dist", "build", "out", "lib", str(BUNDLED), ".build")
"""Folders in which a bundler leaves JavaScript, if no file that is read here says it."""
COPIED = (".py", *SUFFIXES, *TYPESCRIPT, ".go", ".java", ".kt")
"""Endings of the sources that `sam build` copies or builds."""
SDK = ("aws-sdk", "@aws-sdk/*")
"""What Lambda's runtime has, and so a project need not list."""
CHECKOUT_S = 2.0
"""Files of a repository that has what was built of it are written within that time, in no order that says anything."""
SKIPPED = frozenset(("node_modules", "test", "tests", "__tests__", "vendor", "target"))
"""Folders whose sources are no part of the function, or not the user's."""

_COMMENTS = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
_EXPORTED = re.compile(r"^\s*export\s+(?:async\s+)?(?:function|const|let|var)\s+(\w+)", re.MULTILINE)
_LISTED = re.compile(r"^\s*export\s*\{([^}]*)\}", re.MULTILINE)
_IS_NO_SOURCE = re.compile(r"\.(?:test|spec|d)\.[cm]?tsx?$|_test\.go$")
_MAIN = re.compile(r"^package main\b.*^func main\(\)", re.MULTILINE | re.DOTALL)
_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)\s*;", re.MULTILINE)
_HANDLES = re.compile(r"\bimplements\b[^{]*\bRequest(?:Stream)?Handler\b")
_METHOD = re.compile(r"^\s*public\s+(?:static\s+)?[\w<>\[\], .?]+\s(\w+)\s*\([^)]*\)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Build:
    """What is made of a source before it can run."""

    source: Path
    """The source, as the user gave it; of a folder that of its program."""
    line: int | None
    """Line of the handler in it, from 1."""
    command: str
    """What to type to build it, in the present folder."""
    target: str
    """What to run then, such as `dist/index.js:handler`; of TypeScript whose output was not found, the source."""
    output: Path | None
    """The file that was built. None if there is none."""
    is_older: bool
    """A source has changed since."""

    @property
    def problem(self) -> str:
        """Why it cannot run yet, and what to type. Empty if it can."""
        if self.output is not None and not self.is_older:
            return ""
        if self.output is not None:
            return f"{self.stale}; or {self.target} as it is"
        then = f"{self.command} && truemem check {shlex.quote(self.target)}"
        return f"{self.source} must be built before it can run. Try {then}"

    @property
    def stale(self) -> str:
        """Why what was built is not measured, and what to type."""
        return f"{self.source} is newer than {self.output}. Try {self.command}, then this command again"

    @property
    def notice(self) -> str:
        """What is run in its place."""
        return f"{self.source} runs as {self.target}, which is not older"


def build_of(spec: str) -> Build | None:
    """How `src/index.ts:handler`, `main.go`, a folder with a program in Go, `App.java`, `pom.xml` or the like is built.
    None if `spec` names no such source. No command is run. Raises BadInput for a file or a handler that is not there.
    """
    name, _, handler = spec.partition(":")
    path = Path(name) if ".." not in Path(name).parts else Path(name).resolve()
    if path.suffix in TYPESCRIPT:
        return _typescript(_there(path), handler)
    if path.suffix == ".java" or path.name in (MAVEN, *GRADLE):
        return _java(_there(path), handler)
    if path.suffix == ".go" or path.name == "go.mod":
        return _go(_there(path).parent)
    if not path.is_dir():
        return None
    if project := next((each for each in (MAVEN, *GRADLE) if (path / each).is_file()), None):
        return _java(path / project, handler)
    is_go = (path / "go.mod").is_file() or (_above(path / "main.go", ("go.mod",)) and go_programs(path))
    return _go(path) if is_go else None


def built(spec: str) -> Build | None:
    """The same where it can run. Raises BadInput, with the command that builds it, where it cannot yet."""
    build = build_of(spec)
    if build is not None and build.problem:
        raise BadInput(build.problem)
    return build


def made_by_sam(template: Path, logical_id: str) -> Build | None:
    """How a function of the template that `sam build` writes is built. None for any other template. Raises BadInput."""
    from .cloudformation_yaml import load_template  # PyYAML: for a template alone

    root = Path(os.path.relpath(template.resolve().parents[2])) if len(template.resolve().parents) > 2 else Path()
    own = next((root / name for name in SAM_TEMPLATES if (root / name).is_file()), None)
    if template.resolve().parent != (root / SAM_BUILD).resolve() or own is None:
        return None
    members = _members(load_template(own))
    resource = _members(_members(members.get("Resources")).get(logical_id))
    shared = _members(_members(members.get("Globals")).get("Function"))
    uri = {**shared, **_members(resource.get("Properties"))}.get("CodeUri", ".")
    code = root / uri if isinstance(uri, str) else root
    if not resource:  # it was built of another template
        return None
    source = max((own, *_files(code, COPIED)), key=lambda each: _newest([each]))
    return Build(
        source=source,
        line=None,
        command=_in(root, "sam build"),
        target=f"{template}:{logical_id}",
        output=template,
        is_older=_is_newer([source], [template]),
    )


def made_in_go(program: Path) -> Build | None:
    """How a program in Go is built of the sources beside it. None if there are none."""
    if not _mains(program.parent):
        return None
    build = _go(program.parent)
    return build if build.output == program else None


def made_in_node(code: Path, place: Path, module: str, entry: Path | None = None) -> Build | None:
    """How the file of a Node.js handler is built, whose folder is `code`. `place`: where its source lies at the same
    path. `entry`: the source, if a template names it. None if no source is found, or if it runs as it is."""
    output = next((each for each in _named(code / f"{module}.js") if each.is_file()), None)
    endings = TYPESCRIPT if place == code else (*TYPESCRIPT, *SUFFIXES)
    source = entry or next((each for end in endings if (each := place / f"{module}{end}").is_file()), None)
    if source is not None:
        command = _in(place, bundled(source, Path(os.path.relpath(code, place)), place))
    elif output is not None:
        root = _above(output, PROJECTS) or place
        same = [each for each in _files(root, TYPESCRIPT) if each.stem == output.stem]
        places = ((each, place) for each in same for place in _outputs(root, each) if place.is_file())
        source = next((each for each, place in places if output.samefile(place)), None)
        command = _node_build(root, None, source) if source else ""
    if source is None or source == output:
        return None
    return Build(
        source=source,
        line=None,
        command=command,
        target=str(output or code / f"{module}.js"),
        output=output,
        is_older=output is not None and _is_older(output, source),
    )


def bundled(source: Path, out: Path, place: Path) -> str:
    """esbuild, as the plugins of the Serverless Framework and SAM call it, in the folder `place`: it writes the same
    path below `out`."""
    package = _json((_above(source, PROJECTS[:1]) or place) / "package.json")
    listed = _members(package.get("dependencies")) | _members(package.get("devDependencies"))
    absent = [each for each in SDK if not any(name.startswith(each.rstrip("*")) for name in listed)]
    external = "".join(f" '--external:{each}'" for each in absent)
    entry = shlex.quote(os.path.relpath(source, place))
    options = f"--bundle --platform=node --sourcemap{external} --outbase=. --outdir={out}"
    return f"npx --yes esbuild {entry} {options}"


def by_script(place: Path) -> str:
    """The command of the project's own script that builds what runs in this folder. Empty if it has none."""
    root = _above(place / "package.json", PROJECTS[:1])
    return _node_build(root, None, None) if root and _script(root) else ""


def _is_older(output: Path, source: Path) -> bool:
    endings = TYPESCRIPT if source.suffix in TYPESCRIPT else SUFFIXES
    return _is_newer(_files(source.parent, endings), [output, *_files(output.parent, SUFFIXES)])


def _there(path: Path) -> Path:
    if not path.is_file():
        raise BadInput(f"no file {path}. Try PATH/{path.name}")
    return path


def _typescript(source: Path, handler: str) -> Build:
    text = _text(source)
    exported = {each[1]: text.count("\n", 0, each.start(1)) + 1 for each in _EXPORTED.finditer(text)}
    exported |= {each.split()[-1]: 0 for part in _LISTED.findall(text) for each in part.split(",") if each.strip()}
    if not handler:
        likely = next((each for each in exported if "handler" in each.lower()), next(iter(exported), "handler"))
        raise BadInput(f"{source} names no handler (found: {', '.join(exported) or 'none'}). Try {source}:{likely}")
    root = _above(source, PROJECTS) or (source.parent if source.is_absolute() else Path())
    sam = _sam_root(source)
    places = [*_outputs(root, source), *_sam_outputs(sam, source)]
    output = next((each for each in places if each.is_file()), None)
    target = f"{source}:{handler}"
    if output is not None:
        target = _in_sam(sam, output, handler) if sam and sam / SAM_BUILD in output.parents else f"{output}:{handler}"
    return Build(
        source=source,
        line=exported.get(handler) or None,
        command=_node_build(root, sam, source),
        target=target,
        output=output,
        is_older=output is not None and _is_older(output, source),
    )


def _outputs(root: Path, source: Path) -> Iterator[Path]:
    """Where what is built of a source in this project may be, the likeliest first."""
    below = source.resolve().relative_to(root.resolve())
    for script in _members(_json(root / "package.json").get("scripts")).values():
        yield from _by_esbuild(root, source, str(script))
    options, folder = _compiler_options(root / "tsconfig.json")
    said = [folder / options["outDir"]] if isinstance(options.get("outDir"), str) else []
    for output in (*said, *(root / each for each in USUAL_OUTPUTS)):
        for begin in range(len(below.parts)):  # without rootDir, tsc leaves out what all sources have in common
            yield from _named(output.joinpath(*below.parts[begin:]))
    yield from _named(source)


def _by_esbuild(root: Path, source: Path, script: str) -> Iterator[Path]:
    """Where a script of package.json has esbuild write what it makes of this source."""
    for command in re.split(r"&&|\|\||[;&|]", script):
        try:
            words = shlex.split(command)
        except ValueError:
            continue
        if not any(Path(word).name == "esbuild" for word in words):
            continue
        options = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))
        globs = [word.removeprefix("./") for word in words if Path(word).suffix in TYPESCRIPT and word[0] != "-"]
        entries = [each.resolve() for pattern in globs for each in root.glob(pattern)]
        if source.resolve() not in entries:
            continue
        if "outfile" in options:
            yield root / options["outfile"]
        elif "outdir" in options:
            common = os.path.commonpath([each.parent for each in entries])
            base = (root / options["outbase"]).resolve() if "outbase" in options else Path(common)
            yield from _named(root / options["outdir"] / source.resolve().relative_to(base))


def _named(path: Path) -> Iterator[Path]:
    yield from (path.with_suffix(ending) for ending in SUFFIXES)


def _compiler_options(path: Path, most: int = 8) -> tuple[dict[str, Any], Path]:
    """compilerOptions of a tsconfig.json, and the folder from which its outDir counts. Those that it extends count
    where it has none."""
    config = _json(path)
    options = _members(config.get("compilerOptions"))
    extends = config.get("extends")
    if "outDir" in options or not most or not isinstance(extends, str) or not extends.startswith("."):
        return options, path.parent
    base = path.parent / extends
    return _compiler_options(base if base.suffix == ".json" else Path(f"{base}.json"), most - 1)


def _sam_root(source: Path) -> Path | None:
    """The folder above a source whose template is one of SAM."""
    for folder in _parents(source):
        for template in (folder / name for name in SAM_TEMPLATES):
            if template.is_file() and "AWS::Serverless" in _text(template):
                return folder
    return None


def _sam_outputs(root: Path | None, source: Path) -> Iterator[Path]:
    if root is None:
        return
    below = source.resolve().relative_to(root.resolve())
    for folder in sorted((root / SAM_BUILD).glob("*/")):
        for begin in range(len(below.parts)):
            yield from _named(folder.joinpath(*below.parts[begin:]))


def _in_sam(root: Path, output: Path, handler: str) -> str:
    """The function of the built template that this file is of, else the file."""
    from .cloudformation_yaml import load_template  # PyYAML: for a template alone

    template = root / SAM_BUILD / "template.yaml"
    if template.is_file():
        resources = _members(_members(load_template(template)).get("Resources"))
        for logical_id, each in resources.items():
            own = _members(_members(each).get("Properties"))
            code, asked = template.parent / str(own.get("CodeUri", logical_id)), str(own.get("Handler", ""))
            if code in output.parents and asked == f"{output.relative_to(code).with_suffix('')}.{handler}":
                return f"{template}:{logical_id}"
    return f"{output}:{handler}"


def _script(root: Path) -> str | None:
    scripts = _members(_json(root / "package.json").get("scripts"))
    return next((name for name in ("build", "compile", "bundle") if name in scripts), None)


def _node_build(root: Path, sam: Path | None, source: Path | None) -> str:
    """The command that builds a project in TypeScript. `source`: what esbuild gets; None where a script builds."""
    package = _json(root / "package.json")
    manager = next((name for name, lock in LOCKS.items() if (root / lock).is_file()), "npm")
    script = _script(root)
    by_sam = sam is not None and any(
        "BuildMethod: esbuild" in _text(sam / name) for name in SAM_TEMPLATES if (sam / name).is_file()
    )
    if by_sam and sam is not None:
        return _in(sam, "sam build")
    needs = _members(package.get("dependencies")) | _members(package.get("devDependencies"))
    if script is not None or source is None:
        build = f"{manager} run {script}"
    elif (root / "tsconfig.json").is_file() and not _compiler_options(root / "tsconfig.json")[0].get("noEmit"):
        build = "npx tsc" if "typescript" in needs else "npx --yes -p typescript tsc"  # `npx tsc` gets another package
    else:
        entry = shlex.quote(str(source.resolve().relative_to(root.resolve())))
        npx = "npx" if "esbuild" in needs else "npx --yes"
        build = f"{npx} esbuild {entry} --bundle --platform=node --sourcemap --outdir=dist"
    is_installed = (root / "node_modules").is_dir() or (root / ".pnp.cjs").is_file()
    return _in(root, f"{manager} install && {build}" if needs and not is_installed else build)


LOCKS = {"pnpm": "pnpm-lock.yaml", "yarn": "yarn.lock", "npm": "package-lock.json"}


def _go(folder: Path) -> Build:
    module = _above(folder / "main.go", ("go.mod",)) or folder
    mains = _mains(folder)
    if not mains:
        found = sorted({each.parent for each in go_programs(folder)})
        named = f"{folder} has no program in Go (package main)"
        if not found:
            raise BadInput(f"{named}, nor has a folder below it. Try the folder of its main.go")
        raise BadInput(f"{named}: found {', '.join(map(str, found[:8]))}. Try truemem check {found[0]}")
    output = folder / "bootstrap"
    base = Path.cwd() if Path.cwd().is_relative_to(module.resolve()) else module
    below = Path(os.path.relpath(folder, base))
    package = str(below) if below.parts[:1] in ((), ("..",)) else f"./{below}"
    sources = [*_files(module, (".go",)), *(module / name for name in ("go.mod", "go.sum"))]
    is_there = output.is_file() and go_program.is_go(output)
    return Build(
        source=mains[0],
        line=None,
        command=_in(base, shlex.join(("go", "build", "-o", str(below / "bootstrap"), package))),
        target=str(output) if len(output.parts) > 1 else f"./{output}",
        output=output if is_there else None,
        is_older=is_there and _is_newer(sources, [output]),
    )


def _mains(folder: Path) -> list[Path]:
    """The files of package main in a folder."""
    return [each for each in sorted(folder.glob("*.go")) if not _IS_NO_SOURCE.search(each.name) and _is_main(each)]


def go_programs(folder: Path) -> list[Path]:
    """The files of a main() in Go, in a folder and below it."""
    return sorted(filter(_is_main, _files(folder, (".go",))))


def _is_main(source: Path) -> bool:
    text = _text(source)
    return _MAIN.search(text) is not None and "//go:build ignore" not in text


def _java(source: Path, handler: str) -> Build:
    root = _above(source, (MAVEN, *GRADLE))
    if source.suffix != ".java":
        found = [each for each in _files(source.parent, (".java",)) if _HANDLES.search(_text(each))]
        if not found:
            raise BadInput(f"{source}: no class below it is a RequestHandler. Try truemem check PATH/App.java:METHOD")
        source = found[0]
    if root is None:
        raise BadInput(f"{source} has no {MAVEN} and no {GRADLE[0]} above it. Try truemem check PATH.jar:CLASS::METHOD")
    text = _text(source)
    method = handler.rpartition("::")[2]
    if not method:
        methods = _METHOD.findall(text)
        method = "handleRequest" if _HANDLES.search(text) else next(iter(methods), "handleRequest")
    package = _PACKAGE.search(text)
    name = f"{package[1]}.{source.stem}" if package else source.stem
    is_maven = (root / MAVEN).is_file()
    jar = _jar(root / ("target" if is_maven else "build/libs"))
    wrapper, tool = ("./mvnw", "mvn") if is_maven else ("./gradlew", "gradle")
    tool = wrapper if (root / wrapper).is_file() else tool
    expected = jar or (root / "target" / f"{_artifact(root / MAVEN)}.jar" if is_maven else root / "build/libs/app.jar")
    sources = [*_files(root, (".java", ".kt")), *(root / each for each in (MAVEN, *GRADLE))]
    declared = re.search(rf"^[^\n/*]*\b{re.escape(method)}\s*\(", text, re.MULTILINE)
    return Build(
        source=source,
        line=text.count("\n", 0, declared.start()) + 1 if declared else None,
        command=_in(root, f"{tool} -q package" if is_maven else f"{tool} -q build"),
        target=f"{expected}:{name}::{method}",
        output=jar,
        is_older=jar is not None and _is_newer(sources, [jar]),
    )


def _jar(folder: Path) -> Path | None:
    """The function's own jar among those that a build leaves: with its libraries, if one has them."""
    beside = ("-sources.jar", "-javadoc.jar", "-tests.jar", "-plain.jar")
    jars = [each for each in folder.glob("*.jar") if not each.name.endswith(beside) and "original-" not in each.name]
    return max(jars, key=lambda each: each.stat().st_size, default=None)


def _artifact(pom: Path) -> str:
    """Name of the jar that Maven makes, without its ending."""
    text = re.sub(
        r"<!--.*?-->|<(parent|dependencies|plugins|dependencyManagement)>.*?</\1>", "", _text(pom), flags=re.S
    )
    said = {name: value.strip() for name, value in re.findall(r"<([\w.-]+)>([^<>]*)</\1>", text)}
    final = said.get("finalName", "${artifactId}-${version}")
    return re.sub(r"\$\{(?:project\.)?([\w.-]+)\}", lambda part: said.get(part[1], part[1].upper()), final)


def _above(source: Path, names: Iterable[str]) -> Path | None:
    """The nearest folder above a source that has one of these files. Relative if the source is, up to the present
    folder; beyond that absolute."""
    return next((each for each in _parents(source) if any((each / name).is_file() for name in names)), None)


def _parents(source: Path) -> list[Path]:
    beyond = [] if source.is_absolute() else Path.cwd().parents
    return [*source.parents, *beyond]


def _files(folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if each not in SKIPPED and not each.startswith(".")]
        kept = (name for name in names if name.endswith(endings) and not _IS_NO_SOURCE.search(name))
        yield from (Path(place, name) for name in kept)


def _is_newer(sources: Iterable[Path], made: Iterable[Path]) -> bool:
    """True if a source was written after all that was made of them, and not with them, as git writes a checkout."""
    return _newest(sources) > _newest(made) + CHECKOUT_S


def _newest(files: Iterable[Path]) -> float:
    return max((each.stat().st_mtime for each in files if each.is_file()), default=0.0)


def _in(folder: Path, command: str) -> str:
    """The command as it is typed to run in a folder."""
    return command if folder.resolve() == Path.cwd() else f"(cd {shlex.quote(str(folder))} && {command})"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}. Try chmod +r {path}") from None


def _json(path: Path) -> dict[str, Any]:
    """A JSON file, also with comments as tsc permits them. Empty if it is none."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return {}
    return _members(parsed(_COMMENTS.sub(lambda it: it[1] or "", text)))


def _members(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
