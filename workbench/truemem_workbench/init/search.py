"""Finds the functions of a project: by its template, else by its sources."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..support.bad_input import BadInput
from ..support.platform_facts import language, version
from ..support.terminal import counted, some
from ..support.untrusted_text import mapping
from ..target.as_sam import BUNDLED, SERVERLESS, as_sam
from ..target.cloudformation_yaml import load_template
from ..target.sources import TYPESCRIPT, go_programs
from . import builds, handlers
from .found import Build, Found, Language, Source, with_own_names
from .tree import Tree, text_of, tree

TEMPLATES = (
    "template.yaml",
    "template.yml",
    "template.json",
    "sam.yaml",
    "sam.yml",
    "serverless.yml",
    "serverless.yaml",
)
NODE = (".mjs", ".js", ".cjs")
MOST_FUNCTIONS = 20
"""Most functions that are taken from sources: more of them have a template."""
MOST_READ = 2_000
"""Most sources that are read."""
LOOKED_FOR = "a template of SAM or CDK, serverless.yml, and handlers in Python, Node.js, TypeScript, Go and Java"
ENTRIES = {"app", "index", "main", "handler", "lambda_function", "lambda_handler", "lambda", "function"}
"""Names of files that do not tell functions apart: their folder does, but for one of PLAIN."""
PLAIN = {"", "src", "lib", "lambda", "code", "function"}


@dataclass(frozen=True)
class Project:
    """The functions that were found, below a folder."""

    root: Path
    found: list[Found]
    notes: tuple[str, ...] = ()


def find(given: str) -> Project:
    """The functions of a folder, a template or a source; or one function, as `truemem check` takes it. Raises BadInput
    if there is none, or if nothing says which of several templates."""
    path, _, name = given.rpartition(":")
    place = Path(path if name and path and not Path(given).exists() else given)
    name = name if place == Path(path) and path else ""
    if not place.exists():
        raise BadInput(f"no file or folder {place}. Try truemem init, in the folder of a function")
    if place.is_absolute() or ".." in place.parts:
        try:
            place = place.resolve().relative_to(Path.cwd().resolve())
        except ValueError:
            folder = place if place.is_dir() else place.parent
            raise BadInput(f"{place} is not below this folder. Try cd {folder} && truemem init") from None
    root = place if place.is_dir() else place.parent
    files = tree(root)
    if place.is_dir():
        found, notes = _in_folder(files)
    else:
        found, notes = [*_in_file(place, files)], ()
        if name:
            found = [each for each in found if each.target.rpartition(":")[2] == name or each.name == name]
    if not found:
        what = f"no function {name} in {place}" if name else f"no function in {place.absolute()}"
        cdk = " It has a cdk.json: try npx cdk synth, then truemem init" if (root / "cdk.json").is_file() else ""
        limit = "" if files.is_whole else f" (of more than {len(files.files):,} files; name a folder)"
        tries = cdk or " Try truemem init PATH/app.py:handler, or the folder of a function"
        raise BadInput(f"{what}: looked for {LOOKED_FOR}{limit}.{tries}")
    return Project(root, with_own_names(found), notes)


def _in_folder(files: Tree) -> tuple[list[Found], tuple[str, ...]]:
    places = files.named(*TEMPLATES) + sorted((files.root / "cdk.out").glob("*.template.json"))
    places.sort(key=lambda path: (len(path.parts), TEMPLATES.index(path.name) if path.name in TEMPLATES else 99))
    by_template: dict[Path, list[Found]] = {}
    for path in places:
        try:
            found = [*_of_template(path, files)]
        except BadInput:
            if path.parent == files.root:
                raise
            continue  # one that is itself made of a template, such as a cookiecutter's
        if found:
            by_template[path] = found
            if path.parent == files.root:
                return found, ()
    of_cdk = [each for path, found in by_template.items() if path.parent.name == "cdk.out" for each in found]
    if of_cdk:
        return of_cdk, ()
    if len(by_template) > 1:
        folders = [str(path.parent) for path in by_template]
        raise BadInput(
            f"{len(folders)} templates below {files.root.absolute()}: {some([*map(str, by_template)], 5)}. Each has a"
            f" gate of its own. Try truemem init {folders[0]}"
        )
    if by_template:
        return next(iter(by_template.values())), ()
    found = [*_of_sources(files)]
    rest = len(found) - MOST_FUNCTIONS
    notes = (f"{counted(rest, 'more function')} found, and left out. Try truemem init FOLDER",) if rest > 0 else ()
    return found[:MOST_FUNCTIONS], notes


def _in_file(path: Path, files: Tree) -> Iterator[Found]:
    if path.suffix in (".yaml", ".yml", ".json"):
        yield from _of_template(path, files)
    elif path.suffix:
        yield from _of_source(path, files)
    elif os.access(path, os.X_OK):
        yield Found(name=path.resolve().parent.name, target=_shown(path), language="other", folder=path.parent)


# --- templates --------------------------------------------------------------------------------------------------------


def _of_template(path: Path, files: Tree) -> Iterator[Found]:
    """The functions of a template; none if it has none. Raises BadInput if it cannot be read."""
    template = mapping(as_sam(load_template(path), path.parent))
    shared = mapping(mapping(template.get("Globals")).get("Function"))
    resources = mapping(template.get("Resources"))
    functions = {name: mapping(each) for name, each in resources.items() if mapping(each).get("Type") == SERVERLESS}
    built = path.parent / ".aws-sam/build/template.yaml"
    is_sam = "functions" not in template and path.parent.name != "cdk.out" and path.name[:10] != "serverless"
    of_sam = builds.of_sam(path, files) if is_sam else None
    made = [
        _of_resource(
            name,
            each,
            {**shared, **mapping(each.get("Properties"))},
            path,
            _stand_ins(mapping(each.get("Properties")), shared, mapping(template.get("Parameters"))),
        )
        for name, each in functions.items()
    ]
    can_sam = of_sam is not None and (shutil.which("sam") is not None or (built.is_file() and not of_sam.is_needed))
    if of_sam is not None and can_sam and any(each.builds for each in made):
        for each in made:
            yield Found(
                name=each.name, target=f"{built}:{each.name}", language=each.language, version=each.version,
                sources=each.sources, builds=(of_sam,), folder=each.folder, options=each.options,
            )  # fmt: skip
    else:
        yield from made


def _of_resource(
    name: str, resource: Mapping[str, Any], properties: Mapping[str, Any], path: Path, stand_ins: Mapping[str, str]
) -> Found:
    runtime, uri = properties.get("Runtime"), properties.get("CodeUri")
    of = language(runtime) if isinstance(runtime, str) else None
    root = path.parent
    code = root / uri if isinstance(uri, str) else root
    made: tuple[Build, ...] = ()
    options = tuple(("--env", f"{variable}={value}") for variable, value in stand_ins.items())
    kind: Language = "other"
    target = f"{path}:{name}"
    if of == "python":
        kind, made = "python", builds.of_python(code, root)
    elif of == "nodejs":
        kind, made = "nodejs", _of_node(resource, properties, code, root)
    elif of == "os-only" or runtime == "go1.x":
        if main := _go_main(name, code):
            kind, made = "go", builds.of_source(str(main), root)
            if main.parent != code:
                target, options = str(main), (*options, *_sizes(properties))
    elif of == "java":
        kind = "java"
        if source := _java_source(properties.get("Handler"), code):
            method = str(properties["Handler"]).rpartition("::")[2]
            target, made = f"{source}:{method}", builds.of_source(f"{source}:{method}", root)
            options += _sizes(properties)
    number = version(runtime) if isinstance(runtime, str) and kind in ("python", "nodejs", "java") else ()
    return Found(
        name=name,
        target=target,
        options=options,
        language=kind,
        version=".".join(map(str, number[: 2 if kind == "python" else 1])),
        sources=tuple(_sources(properties)),
        builds=made,
        folder=code,
    )


_PART = re.compile(r"\$\{([^}!]+)\}")
_PSEUDO = {"AWS::Region": "us-east-1", "AWS::AccountId": "123456789012", "AWS::Partition": "aws"}


def _stand_ins(own: Mapping[str, Any], shared: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, str]:
    """A value for each variable that only a stack knows: the name of what it refers to, else its own."""
    defaults = {name: mapping(each).get("Default") for name, each in parameters.items()}
    known = {**_PSEUDO, **{name: str(value) for name, value in defaults.items() if value is not None}}

    def named(reference: object) -> str:
        text = str(reference[0] if isinstance(reference, list) and reference else reference)
        return known.get(text, text.rpartition("::")[2].partition(".")[0])

    made: dict[str, str] = {}
    for place in (shared, own):
        for name, value in mapping(mapping(place.get("Environment")).get("Variables")).items():
            if not isinstance(value, Mapping):
                made.pop(name, None)
                continue
            (kind, said), *_ = [*value.items(), ("", "")]
            if kind == "Fn::Sub" and isinstance(said, str):
                parts = _PART.findall(said)
                if all(part in defaults and part in known for part in parts):
                    continue
                made[name] = _PART.sub(lambda part: named(part[1]), said)
            elif kind != "Ref" or defaults.get(str(said)) is None:
                made[name] = named(said) if kind in ("Ref", "Fn::GetAtt") else name
    return made


def _sizes(properties: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The options that say what a template does, for a source in its place."""
    sizes = ("--memory", properties.get("MemorySize")), ("--timeout", properties.get("Timeout"))
    return tuple((option, str(size)) for option, size in sizes if isinstance(size, int))


def _go_main(name: str, code: Path) -> Path | None:
    """The file of a function's main() in Go: in its folder, else below that in a folder of its name, or in the only one
    with a program. None if there is none. Raises BadInput if several may be it."""
    if not any((code / each).is_file() for each in ("main.go", "go.mod")):
        return None
    mains = {each.parent: each for each in go_programs(code)}
    likely = [code] if code in mains else [each for each in mains if each.name.lower() == name.lower()] or [*mains]
    if len(likely) > 1:
        folders = some([*map(str, likely)], 8)
        raise BadInput(f"{name} may be any of these programs in Go: {folders}. Try truemem init {likely[0]}")
    return mains[likely[0]] if likely else None


def _java_source(handler: object, code: Path) -> Path | None:
    """The source of the class that a handler names, below the folder of its project: it is built without SAM."""
    if not isinstance(handler, str) or not code.is_dir():
        return None
    below = handler.partition("::")[0].replace(".", "/") + ".java"
    return next((path for path in tree(code).files if path.as_posix().endswith(f"/{below}")), None)


def _of_node(resource: Mapping[str, Any], properties: Mapping[str, Any], code: Path, root: Path) -> tuple[Build, ...]:
    """What is installed for a function in Node.js, and built if its file is none of its sources."""
    handler = properties.get("Handler")
    module = handler.rpartition(".")[0] if isinstance(handler, str) else ""
    place = root if code == root / BUNDLED else code
    method = mapping(resource.get("Metadata"))
    entries = mapping(method.get("BuildProperties")).get("EntryPoints")
    listed = [place / each for each in (entries if isinstance(entries, list) else []) if isinstance(each, str)]
    entry = next((each for each in listed if each.is_file()), None)
    return builds.of_node(code, place, module, entry, root)


def _sources(properties: Mapping[str, Any]) -> Iterator[Source]:
    if "FunctionUrlConfig" in properties:
        yield Source("FunctionUrl")
    for event in mapping(properties.get("Events")).values():
        kind, said = mapping(event).get("Type"), mapping(mapping(event).get("Properties"))
        pattern = mapping(said.get("Pattern"))
        firsts = {name: each[0] for name, each in pattern.items() if isinstance(each, list) and each}
        given = {"path": said.get("Path"), "method": said.get("Method"), **firsts}
        if isinstance(kind, str):
            yield Source(kind, {name: each for name, each in given.items() if isinstance(each, str)})


# --- sources ----------------------------------------------------------------------------------------------------------


def _of_sources(files: Tree) -> Iterator[Found]:
    sources = files.ending(".py", *NODE, *TYPESCRIPT, ".go", ".java")
    found = (each for path in sources[:MOST_READ] for each in _of_source(path, files))
    yield from {each.target: each for each in found}.values()  # several files of a folder are one program in Go


def _of_source(path: Path, files: Tree) -> Iterator[Found]:
    """The functions whose handlers are in this file."""
    folder, text = path.parent, text_of(path)
    if path.suffix == ".py":
        for name in handlers.in_python(text):
            made = builds.of_python(folder, files.root)
            yield _found(path, name, f"{path}:{name}", "python", made)
    elif path.suffix in NODE and "." not in path.stem:
        if any(path.with_suffix(each).is_file() for each in TYPESCRIPT):
            return  # it is what is built of that
        for name in handlers.in_node(text):
            yield _found(path, name, f"{path}:{name}", "nodejs", builds.of_packages(folder, files.root))
    elif path.suffix in TYPESCRIPT and "." not in path.stem:
        for name in handlers.in_node(text):
            spec = f"{path}:{name}"
            yield _found(path, name, spec, "nodejs", builds.of_source(spec, files.root))
    elif path.suffix == ".go" and handlers.in_go(text):
        if main := next((each for each in go_programs(folder) if each.parent == folder), None):
            yield _found(folder / "main.go", "", str(main), "go", builds.of_source(str(main), files.root))
    elif path.suffix == ".java" and handlers.in_java(text):
        yield _found(path, "", str(path), "java", builds.of_source(str(path), files.root))


def _found(path: Path, handler: str, target: str, of: Language, made: tuple[Build, ...]) -> Found:
    folder = path.parent
    stem = folder.name if path.stem in ENTRIES and folder.name not in PLAIN else path.stem
    name = stem if handler in ("", *handlers.USUAL) else f"{stem}-{handler}"
    return Found(name=name, target=target, language=of, builds=made, folder=folder)


def _shown(path: Path) -> str:
    """The path of an executable as a shell takes it."""
    return f"./{path}" if path.parent == Path() else str(path)
