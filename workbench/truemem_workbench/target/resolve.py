"""What a user types for a function, as a Target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..local import Function
from ..local.configuration.java_function import from_java_handler, is_java, source_of
from ..local.configuration.node_function import SUFFIXES, from_node_handler
from ..support.bad_input import BadInput
from ..support.terminal import Progress
from . import images, sources
from .target import Target, line_of, name_from
from .template import Choose, Notify, from_template

TEMPLATES = (".yaml", ".yml", ".json")


def is_in_template(spec: str) -> bool:
    """True for a function of a template, and for a template that is named without one."""
    return Path(spec.rpartition(":")[0] or spec).suffix in TEMPLATES


def resolve(
    spec: str,
    choose: Choose = lambda it: (it.checked(), ()),
    notify: Notify = lambda _: None,
    progress: Progress = lambda *_: None,
    cmd: str | None = None,
) -> Target:
    """Resolve `app.py:handler`, `index.mjs:handler`, `app.jar:com.example.App`, `template.yaml:LogicalId`, the archive
    of an image, the path of a bootstrap executable, or a source of which one of these was built.

    For Node.js and Java, `notify` gets a sentence where a runtime client must be made first. `progress` is told how far
    an image is unpacked, and `cmd` is given to it in place of its CMD. Raises BadInput.
    """
    if (image := images.found(spec)) is not None:
        return images.target(spec, images.loaded(spec, *image, progress).configured(None, cmd and cmd.split()))
    if cmd is not None:
        raise BadInput(f"--cmd {cmd}: {spec} is no image. Leave --cmd out")
    if (build := sources.built(spec)) is not None:
        made = resolve(build.target, choose, notify, progress)
        notices = (build.notice, *made.notices)
        function = replace(made.function, build=build.command)
        return replace(made, spec=spec, function=function, source=build.source, line=build.line, notices=notices)
    path, _, name = spec.rpartition(":")
    if is_in_template(spec) and path:
        return from_template(Path(path), name, choose, notify, progress)
    if is_in_template(spec):
        raise BadInput(f"{spec} names no function. Try {spec}:LOGICAL_ID")
    if is_java(spec):
        function, said = from_java_handler(spec, notify)
        source, line = source_of(Path(spec.partition(":")[0]), function.handler)
        function, notices = choose(function)
        return Target(
            spec=spec,
            name=name_from(function.handler.partition("::")[0].rpartition(".")[2]),
            function=function,
            source=source,
            line=line,
            notices=(*said, *notices),
        )
    is_node = Path(path).suffix in SUFFIXES
    function, notices = choose(from_node_handler(spec, None, notify) if is_node else Function.from_spec(spec))
    source = Path(path) if function.runtime else None
    line = line_of(source, name) if source else None
    return Target(
        spec=spec, name=name_from(function.task_root.name), function=function, source=source, line=line, notices=notices
    )
