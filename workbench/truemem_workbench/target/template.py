"""A function of a SAM template. What the text alone says counts: no stack, no deployment."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..local import Function
from ..local.configuration.function import STARTED, WRAPPER, bootstrap_line
from ..local.configuration.java_function import from_java_handler, source_of
from ..local.configuration.node_function import SUFFIXES, from_node_handler
from ..support import docs_link, web_adapter
from ..support.bad_input import BadInput
from ..support.near import closest
from ..support.platform_facts import (
    AT_ONCE,
    GIB_PER_VCPU,
    LEAST_MANAGED_MIB,
    LEAST_MIB,
    MOST_AT_ONCE,
    MOST_MANAGED_MIB,
    MOST_MANAGED_TIMEOUT_S,
    MOST_MANAGED_TMP_MIB,
    MOST_MIB,
    MOST_TIMEOUT_S,
    MOST_TMP_MIB,
    MOST_VARIABLE_BYTES,
    TMP_MIB,
    USUAL_GIB_PER_VCPU,
    language,
    version,
)
from ..support.terminal import Progress
from ..support.untrusted_text import mapping
from . import images, sources
from .as_sam import BUNDLED, SERVERLESS, as_sam
from .target import Target, line_of, name_from, usual_at_once
from .web_app import started_by

Choose = Callable[[Function], tuple[Function, tuple[str, ...]]]
"""Chooses the interpreter of a function. Returns the function with it, and notices."""


Notify = Callable[[str], None]  # gets a sentence before something that takes long


WEB = "AWS::Serverless::WebFunction"
BUILT = ".aws-sam/build/template.yaml"
"""The template that `sam build` makes. Its code folders contain the dependencies."""
UNKNOWN = object()  # stands for a value that only a deployed stack knows

JAVA_BUILDS = ("pom.xml", "build.gradle", "build.gradle.kts")
STORAGE = "EphemeralStorage"
MANAGED, OF_CLOUDFORMATION = "CapacityProviderConfig", "LambdaManagedInstancesCapacityProviderConfig"
"""Property of a function on Managed Instances, and what CloudFormation has within it."""
RATIO = "ExecutionEnvironmentMemoryGiBPerVCpu"
IMAGE_CONFIG = "ImageConfig"
LEAST = {"MemorySize": LEAST_MIB, "Timeout": 3, STORAGE: TMP_MIB}  # Lambda's defaults
ALLOWED = {
    "MemorySize": (LEAST_MIB, MOST_MIB, MOST_MANAGED_MIB),
    "Timeout": (1, MOST_TIMEOUT_S, MOST_MANAGED_TIMEOUT_S),
    STORAGE: (TMP_MIB, MOST_TMP_MIB, MOST_MANAGED_TMP_MIB),
    AT_ONCE: (1, MOST_AT_ONCE, MOST_AT_ONCE),
}
"""The least, the most on demand, and the most on Managed Instances."""
HERE = ("/opt/truemem/exact", web_adapter.STARTS_APP)  # what these do in a deployed function is done here as well
STAND_IN = (
    "AWS's Lambda Web Adapter is not here: a stand-in makes requests of events. --extensions FOLDER, with the adapter's"
    f" file {web_adapter.NAME} in it, takes that"
)
WRAPPERS = (WRAPPER, "TRUEMEM_EXEC_WRAPPER")

MOST_TEXT = 65_536  # longest text of an Fn::Sub, in characters. All variables together have MOST_VARIABLE_BYTES.

_PART = re.compile(r"\$\{([^}]*)\}")  # a part of a text for Fn::Sub; `${!Name}` means `${Name}` itself


def from_template(
    path: Path,
    logical_id: str,
    choose: Choose = lambda it: (it.checked(), ()),
    notify: Notify = lambda _: None,
    progress: Progress = lambda *_: None,
) -> Target:
    """Read CodeUri, Handler, MemorySize, Timeout and the literal variables of a function. Raises BadInput.

    A parameter's default counts as literal, also within !Sub. Other intrinsic functions need a stack. They are left
    out, as layers are, and a notice says so.
    """
    from .cloudformation_yaml import load_template  # PyYAML: for a template alone

    template = mapping(as_sam(load_template(path), path.parent))
    resources = mapping(template.get("Resources"))
    functions = [name for name, each in resources.items() if mapping(each).get("Type") == SERVERLESS]
    if mapping(resources.get(logical_id)).get("Type") == WEB:
        why = f"a Web Function, in which Lambda starts no extension ({docs_link.command('platforms')})"
        raise BadInput(f"{logical_id} in {path} is {why}. Try a handler that it calls: truemem check app.py:handler")
    if logical_id not in functions:
        found = ", ".join(functions) or "none"
        example = next(iter(closest(logical_id, functions) or functions), "LOGICAL_ID")
        raise BadInput(f"no {SERVERLESS} {logical_id!r} in {path} (found: {found}). Try {path}:{example}")
    where = f"{logical_id} in {path}"
    shared = mapping(mapping(template.get("Globals")).get("Function"))
    own = mapping(mapping(resources[logical_id]).get("Properties"))
    defaults = {
        name: mapping(each).get("Default", UNKNOWN) for name, each in mapping(template.get("Parameters")).items()
    }

    def literal(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if value.keys() == {"Ref"}:
            return defaults.get(_name(value["Ref"]), UNKNOWN)
        return _substituted(value["Fn::Sub"], literal, defaults) if value.keys() == {"Fn::Sub"} else UNKNOWN

    given = {**shared, **own}
    if STORAGE in given:
        given[STORAGE] = mapping(given[STORAGE]).get("Size", UNKNOWN)
    properties = {name: literal(value) for name, value in given.items() if name != "Environment"}
    if IMAGE_CONFIG in given:
        properties[IMAGE_CONFIG] = {name: literal(value) for name, value in mapping(given[IMAGE_CONFIG]).items()}
    variables = {
        name: literal(value)
        for each in (shared, own)
        for name, value in mapping(mapping(each.get("Environment")).get("Variables")).items()
    }
    layers = [_short(layer) for each in (shared, own) for layer in _list(each.get("Layers"))]
    texts = {name: _text(value) for name, value in variables.items() if value is not UNKNOWN}
    is_web = web_adapter.is_there(layers, texts)
    absent = {name: variables.pop(name) for name in WRAPPERS if _is_absent(variables.get(name))}
    unknown = [name for name, value in variables.items() if value is UNKNOWN]
    memory, timeout, storage = (properties.get(name, least) for name, least in LEAST.items())
    if properties.get("PackageType") == "Image":
        function, port = _of_image(path.parent, properties, where, texts, progress)
        source, line, notices = None, None, [images.STAND_IN] if port else []
    else:
        port = int(web_adapter.app_port(texts)) if is_web else None
        function, source, line, notices = _function(path.parent, properties, where, notify, is_web=is_web)
        function, chosen = (
            (function, (STAND_IN,)) if is_web else choose(_current(function, path, logical_id, properties))
        )
        notices = [*notices, *chosen]
    runtime = properties.get("Runtime")
    if function.python and isinstance(runtime, str):
        function = function.standing_for(runtime)
    managed = MANAGED in properties
    is_unsaid = memory is UNKNOWN or (managed and "MemorySize" not in given)
    usual = LEAST_MANAGED_MIB if managed else LEAST["MemorySize"]
    size = usual if is_unsaid else _whole(memory, "MemorySize", where, managed=managed)
    seconds = LEAST["Timeout"] if timeout is UNKNOWN else _whole(timeout, "Timeout", where, managed=managed)
    usually = None, USUAL_GIB_PER_VCPU, ""
    at_once, ratio, said = _managed(given[MANAGED], literal, size, runtime, where) if managed else usually
    return Target(
        spec=f"{path}:{logical_id}",
        name=name_from(logical_id),
        function=function,
        memory_mib=size,
        managed_instances=at_once,
        gib_per_vcpu=ratio,
        http=port,
        tmp_mib=TMP_MIB if storage is UNKNOWN else _whole(storage, STORAGE, where, managed=managed),
        timeout_s=seconds,
        environment={name: _text(value) for name, value in variables.items() if value is not UNKNOWN},
        source=source,
        line=line,
        extensions={} if function.image is None else images.beside(function.image),
        notices=(
            *notices,
            *(f"only a stack knows {name} of {where}: not set. Try --env {name}=VALUE" for name in unknown),
            *([f"only a stack knows MemorySize of {where}: {size} MiB. Try --memory MiB"] if memory is UNKNOWN else []),
            *([said] if said else []),
            *([f"only a stack knows Timeout of {where}: 3 s. Try --timeout SECONDS"] if timeout is UNKNOWN else []),
            *([f"only a stack knows {STORAGE} of {where}: {TMP_MIB} MiB"] if storage is UNKNOWN else []),
            *_without_layers([each for each in layers if not web_adapter.is_there([each], {})], where, function),
            *(f"{name} of {where} is not here: {value}" for name, value in absent.items() if value not in HERE),
            *_other_runtime(runtime, function),
        ),
    )


def _function(
    folder: Path, properties: Mapping[str, Any], where: str, notify: Notify, *, is_web: bool = False
) -> tuple[Function, Path | None, int | None, list[str]]:
    """The function, the file of its handler, the line, and notices. `is_web`: the handler is a script that starts a web
    server. Raises BadInput."""
    if "InlineCode" in properties:
        raise BadInput(f"{where} has its code in the template (InlineCode). Put it into a file, and try APP.py:HANDLER")
    uri = properties.get("CodeUri", ".")
    code = folder / uri if isinstance(uri, str) else folder
    if not isinstance(uri, str) or uri.startswith("s3://") or not (code.is_dir() or code.suffix == ".jar"):
        shown = "only a stack knows it" if uri is UNKNOWN else uri
        raise BadInput(
            f"CodeUri of {where} is no folder of this machine: {shown}. Try sam build, and"
            f" {BUILT}:{where.partition(' ')[0]}, or APP.py:HANDLER"
        )
    runtime = properties.get("Runtime")
    handler = properties.get("Handler")
    of = language(runtime) if isinstance(runtime, str) else "python"
    is_node = of == "nodejs"
    if is_web and of != "os-only":
        script = Function.from_bootstrap(code / _name(handler))
        return dataclasses.replace(script, variables=started_by("sh", [], code).variables), None, None, []
    if of not in ("python", "nodejs"):
        bootstrap = code / "bootstrap"
        if of == "java" and not bootstrap.is_file():
            return _of_java(code, handler, where, notify)
        if not bootstrap.is_file() and of == "os-only":
            raise BadInput(f"no {bootstrap}{_guessed(properties, where)}. Try sam build, and {BUILT}:ID")
        if not bootstrap.is_file():
            start = bootstrap_line(of, handler if isinstance(handler, str) else "HANDLER")
            raise BadInput(f"{where} runs on {runtime}: {STARTED}. Write {bootstrap}, such as `{start}`, and try again")
        return Function.from_bootstrap(bootstrap), None, None, []
    if not isinstance(handler, str) or "." not in handler:
        raise BadInput(f"Handler of {where} is {handler!r}, not MODULE.FUNCTION. Try APP.py:HANDLER")
    module, _, name = handler.rpartition(".")
    endings = SUFFIXES if is_node else (".py",)
    files = [code / f"{module if is_node else module.replace('.', '/')}{ending}" for ending in endings]
    source = next((each for each in files if each.is_file()), files[0])
    if not source.is_file():
        for typescript in (code / f"{module}{ending}" for ending in sources.TYPESCRIPT):
            if is_node and (build := sources.build_of(f"{typescript}:{name}") if typescript.is_file() else None):
                raise BadInput(build.problem or f"{typescript} is TypeScript. Try truemem check {typescript}:{name}")
        command = sources.by_script(code) if is_node else ""
        then = f"{command}, then this command again" if command else "another Handler or CodeUri"
        raise BadInput(f"no {source} for Handler {handler}{_guessed(properties, where)}. Try {then}")
    spec = f"{source}:{name}"
    found = from_node_handler(spec, None, notify, deployed=runtime) if is_node else Function.from_handler(spec)
    root = code.resolve()
    function = dataclasses.replace(  # a handler below the folder is named from the folder
        found, command=(*found.command[:-1], handler), task_root=root, handler=handler, needs=(root, *found.needs)
    )
    return function, source, line_of(source, name), []


def _current(function: Function, path: Path, logical_id: str, properties: Mapping[str, Any]) -> Function:
    """The function, with the command that builds it if its file is no source. Raises BadInput if a source is newer."""
    build = sources.made_by_sam(path, logical_id)
    code = path.parent / str(properties.get("CodeUri", "."))
    if build is None and function.language == "nodejs":
        place = path.parent if code == path.parent / BUNDLED else code
        build = sources.made_in_node(code, place, function.handler.rpartition(".")[0])
    elif build is None and function.runtime is None:
        build = sources.made_in_go(code / "bootstrap")
    if build is None:
        return function
    if build.is_older:
        raise BadInput(build.stale)
    return dataclasses.replace(function, build=build.command)


def _of_java(
    code: Path, handler: object, where: str, notify: Notify
) -> tuple[Function, Path | None, int | None, list[str]]:
    """The same of a handler in Java, whose code is a jar or what `sam build` makes. Raises BadInput."""
    if not isinstance(handler, str):
        raise BadInput(f"Handler of {where} is {handler!r}, not PACKAGE.CLASS::METHOD. Fix the template")
    is_built = any(next(code.glob(each), None) for each in ("*.class", "*/**/*.class", "lib/*.jar"))
    if code.is_dir() and (not is_built or any((code / each).is_file() for each in JAVA_BUILDS)):
        raise BadInput(
            f"CodeUri of {where} is no jar, and no folder that sam build has made: {code}. Try sam build, and {BUILT}:"
            f"{where.partition(' ')[0]}; or build it, and {code / 'target' / 'classes'}:{handler}"
        )
    function, notices = from_java_handler(f"{code}:{handler}", notify)
    return function, *source_of(code, handler), [*notices]


def _managed(
    config: object, literal: Callable[[Any], Any], size: int, runtime: object, where: str
) -> tuple[int, float, str]:
    """Requests at once and GiB for each vCPU on Managed Instances, by SAM's or CloudFormation's property; and a notice
    if it does not say how many. Raises BadInput."""
    members = mapping(config)
    members = mapping(members.get(OF_CLOUDFORMATION)) or members
    ratio, at_once = literal(members.get(RATIO)), literal(members.get(AT_ONCE))
    gib = USUAL_GIB_PER_VCPU
    if ratio is not None and ratio is not UNKNOWN:
        try:
            gib = float(ratio)
        except (TypeError, ValueError):
            gib = 0.0
        if not GIB_PER_VCPU[0] <= gib <= GIB_PER_VCPU[-1]:
            least, most = GIB_PER_VCPU[0], GIB_PER_VCPU[-1]
            raise BadInput(f"{RATIO} of {where} is {ratio!r}: Lambda has {least:g} to {most:g}. Fix the template")
    if at_once is not None and at_once is not UNKNOWN:
        return _whole(at_once, AT_ONCE, where), gib, ""
    of = runtime if isinstance(runtime, str) else None
    usual = usual_at_once(of, max(1.0, size / 1024 / gib))
    why = "only a stack knows" if at_once is UNKNOWN else "the template does not say"
    return usual, gib, f"{why} {AT_ONCE} of {where}: {usual}, Lambda's default. Try --managed-instances N"


def _of_image(
    folder: Path, properties: Mapping[str, Any], where: str, variables: Mapping[str, str], progress: Progress
) -> tuple[Function, int | None]:
    """The function of an image whose ImageUri is an archive, which `sam build` takes too, or a folder of an OCI layout;
    and its port, if it is a web server. Raises BadInput."""
    uri, config = properties.get("ImageUri"), mapping(properties.get(IMAGE_CONFIG))
    given = uri.removeprefix(images.FOLDER) if isinstance(uri, str) else ""
    place = folder / given
    found = images.found(f"{images.FOLDER if place.is_dir() else ''}{place}") if given and place.exists() else None
    if found is None:
        raise BadInput(
            f"{where} is an image, and its ImageUri no archive here. Try docker save -o image.tar NAME, and ImageUri:"
            " image.tar; or truemem check image.tar"
        )
    words = config.get("EntryPoint"), config.get("Command"), _name(config.get("WorkingDirectory"))
    image = images.loaded(str(place), *found, progress).configured(*words)
    return Function.from_image(image), images.web_port(image, variables)


def _guessed(properties: Mapping[str, Any], where: str) -> str:
    """Say whose file is missing, and why it was expected there."""
    return f" of {where}" if "CodeUri" in properties else f" of {where}, which has no CodeUri"


def _substituted(given: Any, literal: Callable[[Any], Any], defaults: Mapping[str, Any]) -> Any:
    """The text of an Fn::Sub, or UNKNOWN if only a stack knows one of its parts."""
    text, own = given if isinstance(given, list) and len(given) == 2 else (given, {})
    if not isinstance(text, str):
        return UNKNOWN
    values = {**defaults, **{name: literal(value) for name, value in mapping(own).items()}}
    names = [name for name in _PART.findall(text) if not name.startswith("!")]
    if any(values.get(name, UNKNOWN) is UNKNOWN for name in names):
        return UNKNOWN
    texts = {name: _text(values[name]) for name in names}
    if len(text) + sum(len(texts[name]) for name in names) > MOST_TEXT:
        raise BadInput(
            f"a text of Fn::Sub becomes longer than {MOST_TEXT:,} characters. Lambda has {MOST_VARIABLE_BYTES} in all"
        )
    return _PART.sub(lambda part: f"${{{part[1][1:]}}}" if part[1].startswith("!") else texts[part[1]], text)


def _without_layers(names: Sequence[str], where: str, function: Function) -> list[str]:
    if not names:
        return []
    place = "installed for this Python" if function.python else "in its code folder"
    return [f"layers of {where} are not here: {', '.join(names)}. What the function imports from them must be {place}"]


def _is_absent(program: Any) -> bool:
    """True for a program in a layer that is not on this machine."""
    return isinstance(program, str) and program.startswith("/opt/") and not Path(program).exists()


def _short(layer: Any) -> str:
    """A layer's ARN, if the text has one."""
    if isinstance(layer, dict) and len(layer) == 1:
        layer = next(iter(layer.values()))
    return layer if isinstance(layer, str) else "one that only a stack knows"


def _other_runtime(runtime: object, function: Function) -> list[str]:
    is_other = function.runs_on is not None and version(function.runs_on) != version(str(runtime))
    if runtime is UNKNOWN or runtime is None or not is_other:  # java17.al2023 is the same Java
        return []
    return [f"{runtime} is asked for, and this is {function.runs_on}: its memory may differ. Run it with {runtime}"]


def _name(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    """The value as the text that CloudFormation passes on."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _whole(value: object, name: str, where: str, *, managed: bool = False) -> int:
    least, on_demand, on_managed = ALLOWED[name]
    most = on_managed if managed else on_demand
    if managed and name == "MemorySize":
        least = LEAST_MANAGED_MIB
    try:
        number = int(str(value))
    except ValueError:
        raise BadInput(f"{name} of {where} is {value!r}, not a whole number. Try sam validate") from None
    if not least <= number <= most:
        more = f", and with {MANAGED} up to {on_managed}" if most < number <= on_managed else ""
        raise BadInput(f"{name} of {where} is {number}: Lambda has {least} to {most}{more}. Fix the template")
    return number
