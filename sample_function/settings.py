"""The settings of the incident: one environment variable each, validated once, at import."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from network import Shape
from onnx_file import model_size

MODEL_COUNT_MAX = 1000
LAYERS_MAX = 256
WIDTHS = (16, 4096)

MODEL_MIB_MAX = 1024
"""Protobuf, and so ONNX without external data, ends at 2 GiB; in bytes mode two copies exist for a moment."""

STORE_MIB_MAX = 10_240
"""The most ephemeral storage that Lambda gives, in MB."""

MMAP_THRESHOLD_MAX = 32 * 1024 * 1024
"""glibc refuses a larger M_MMAP_THRESHOLD on 64-bit systems (mallopt(3): DEFAULT_MMAP_THRESHOLD_MAX)."""

BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
PREFIX = re.compile(r"[A-Za-z0-9_.-][A-Za-z0-9_./-]{0,500}/")

T = TypeVar("T")


class BadSetting(ValueError):
    """An environment variable that cannot be used. The message names the variable, its value and the fix."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What one environment of the sample function runs with."""

    load_from: Literal["bytes", "path"] = "bytes"
    """LOAD_FROM: `bytes` hands over the model's content, so that two copies of it exist for a moment (what the
    incident did with S3 bodies); `path` lets ONNX Runtime open a file of the model store itself."""

    cache_size: int = 16
    """CACHE_SIZE: sessions kept, least recently used dropped first. 0 keeps none."""

    pop_before_load: bool = False
    """POP_BEFORE_LOAD: drop the session to be evicted before the next one is loaded, not after."""

    mmap_threshold: int | None = None
    """MMAP_THRESHOLD: bytes; M_MMAP_THRESHOLD of glibc's malloc. None leaves glibc's own, sliding one."""

    intra_op_threads: int = 6
    """INTRA_OP_THREADS: ONNX Runtime's threads per session. Each may open a malloc arena of its own."""

    model_dir: Path = Path("/tmp/truemem-models")
    """MODEL_DIR: the model store. Without a bucket, missing models are made here on first use."""

    model_store_mib: int = 400
    """MODEL_STORE_MIB: what the model store may hold. The default leaves room in the 512 MB of ephemeral storage
    that a function normally has."""

    model_bucket: str | None = None
    """MODEL_BUCKET: models are read from this S3 bucket, and those that it lacks are uploaded. None: no bucket."""

    model_prefix: str = "models/"
    """MODEL_PREFIX: what their keys begin with."""

    model_count: int = 40
    """MODEL_COUNT: how many models there are, ids from 0; 40 as in the incident."""

    shape: Shape = field(default_factory=Shape)
    """MODEL_LAYERS, MODEL_WIDTH: how large each model is."""

    tracer_enabled: bool = False
    """TRACER_ENABLED: trace with X-Ray."""


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Settings from environment variables; an absent or empty one means the default. Raises BadSetting."""
    default = Settings()

    def read(name: str, fallback: T, parse: Callable[[str], T], wanted: str) -> T:
        value = environment.get(name, "").strip()
        if not value:
            return fallback
        try:
            return parse(value)
        except (ValueError, KeyError):
            raise BadSetting(f"{name}={value!r} is not {wanted}") from None

    count = read(
        "MODEL_COUNT", default.model_count, _whole(1, MODEL_COUNT_MAX), f"a number from 1 to {MODEL_COUNT_MAX}"
    )
    settings = Settings(
        load_from=read("LOAD_FROM", default.load_from, _load_from, "a way to load: set it to bytes or path"),
        cache_size=read("CACHE_SIZE", default.cache_size, _whole(0, count), f"a number from 0 to {count}"),
        pop_before_load=read("POP_BEFORE_LOAD", default.pop_before_load, _switch, "a switch: set it to true or false"),
        mmap_threshold=read(
            "MMAP_THRESHOLD",
            default.mmap_threshold,
            _whole(0, MMAP_THRESHOLD_MAX),
            f"a number of bytes from 0 to {MMAP_THRESHOLD_MAX}: try 32768, or unset it for glibc's own",
        ),
        intra_op_threads=read("INTRA_OP_THREADS", default.intra_op_threads, _whole(1, 64), "a number from 1 to 64"),
        model_dir=read("MODEL_DIR", default.model_dir, _folder, f"an absolute path: try {default.model_dir}"),
        model_store_mib=read(
            "MODEL_STORE_MIB", default.model_store_mib, _whole(1, STORE_MIB_MAX), f"a number from 1 to {STORE_MIB_MAX}"
        ),
        model_bucket=read(
            "MODEL_BUCKET",
            default.model_bucket,
            _matching(BUCKET),
            "a bucket's name: 3 to 63 of a-z, 0-9, dot and hyphen, without s3:// and without a key",
        ),
        model_prefix=read(
            "MODEL_PREFIX",
            default.model_prefix,
            _matching(PREFIX),
            f"a key prefix: letters, digits, -_./, no / in front and one at the end: try {default.model_prefix}",
        ),
        model_count=count,
        shape=Shape(
            layers=read(
                "MODEL_LAYERS", default.shape.layers, _whole(1, LAYERS_MAX), f"a number from 1 to {LAYERS_MAX}"
            ),
            width=read(
                "MODEL_WIDTH", default.shape.width, _whole(*WIDTHS), f"a number from {WIDTHS[0]} to {WIDTHS[1]}"
            ),
        ),
        tracer_enabled=read("TRACER_ENABLED", default.tracer_enabled, _switch, "a switch: set it to true or false"),
    )
    _check_sizes(settings)
    return settings


def _check_sizes(settings: Settings) -> None:
    """What is wrong only together. Raises BadSetting."""
    layers, width = settings.shape.layers, settings.shape.width
    largest = model_size(settings.shape, settings.model_count - 1) / 2**20
    if largest > MODEL_MIB_MAX:
        raise BadSetting(
            f"MODEL_LAYERS={layers} with MODEL_WIDTH={width} is {largest:.0f} MiB a model, and"
            f" {MODEL_MIB_MAX} is the most: lower one of them"
        )
    if largest > settings.model_store_mib:
        raise BadSetting(
            f"MODEL_STORE_MIB={settings.model_store_mib} does not hold one model of {largest:.1f} MiB"
            f" (MODEL_LAYERS={layers}, MODEL_WIDTH={width}): raise it, and the function's ephemeral storage with it"
        )


def _load_from(value: str) -> Literal["bytes", "path"]:
    choices: dict[str, Literal["bytes", "path"]] = {"bytes": "bytes", "path": "path"}
    return choices[value.lower()]


def _switch(value: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[value.lower()]


def _whole(lowest: int, highest: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        number = int(value)
        if not lowest <= number <= highest:
            raise ValueError(value)
        return number

    return parse


def _matching(pattern: re.Pattern[str]) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(value)
        return value

    return parse


def _folder(value: str) -> Path:
    path = Path(value)
    if not path.is_absolute():
        raise ValueError(value)
    return path
