"""The settings of the incident: one environment variable each, validated once, at import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

MODELS = 40
"""How many models there are: ids 0 to 39, as in the incident."""

MMAP_THRESHOLD_MAX = 32 * 1024 * 1024
"""glibc refuses a larger M_MMAP_THRESHOLD on 64-bit systems (mallopt(3): DEFAULT_MMAP_THRESHOLD_MAX)."""

T = TypeVar("T")


class BadSetting(ValueError):
    """An environment variable that cannot be used. The message names the variable, its value and the mend."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What one environment of the sample function runs with."""

    load_from: Literal["bytes", "path"] = "bytes"
    """LOAD_FROM: `bytes` reads the file and hands over its content, so that two copies of the model exist for
    a moment (what the incident did with S3 bodies); `path` lets ONNX Runtime open the file itself."""

    cache_size: int = 16
    """CACHE_SIZE: sessions kept, least recently used dropped first. 0 keeps none."""

    pop_before_load: bool = False
    """POP_BEFORE_LOAD: drop the session to be evicted before the next one is loaded, not after."""

    mmap_threshold: int | None = None
    """MMAP_THRESHOLD: bytes; M_MMAP_THRESHOLD of glibc's malloc. None leaves glibc's own, sliding one."""

    intra_op_threads: int = 6
    """INTRA_OP_THREADS: ONNX Runtime's threads per session. Each may open a malloc arena of its own."""

    model_dir: Path = Path("/tmp/truemem-models")
    """MODEL_DIR: where the models are, and are made when missing."""


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Settings from environment variables; an absent or empty one means the default. Raises BadSetting."""
    default = Settings()

    def read(name: str, fallback: T, parse: Callable[[str], T], mend: str) -> T:
        value = environment.get(name, "").strip()
        if not value:
            return fallback
        try:
            return parse(value)
        except (ValueError, KeyError):
            raise BadSetting(f"{name}={value!r} is not {mend}") from None

    return Settings(
        load_from=read("LOAD_FROM", default.load_from, _load_from, "a way to load: set it to bytes or path"),
        cache_size=read("CACHE_SIZE", default.cache_size, _whole(0, MODELS), f"a number from 0 to {MODELS}"),
        pop_before_load=read("POP_BEFORE_LOAD", default.pop_before_load, _switch, "a switch: set it to true or false"),
        mmap_threshold=read(
            "MMAP_THRESHOLD",
            default.mmap_threshold,
            _whole(0, MMAP_THRESHOLD_MAX),
            f"a number of bytes from 0 to {MMAP_THRESHOLD_MAX}: try 32768, or unset it for glibc's own",
        ),
        intra_op_threads=read("INTRA_OP_THREADS", default.intra_op_threads, _whole(1, 64), "a number from 1 to 64"),
        model_dir=read("MODEL_DIR", default.model_dir, _folder, f"an absolute path: try {default.model_dir}"),
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


def _folder(value: str) -> Path:
    path = Path(value)
    if not path.is_absolute():
        raise ValueError(value)
    return path
