"""What the user can set: `TRUEMEM_*` variables. An invalid value is one log line and the default, never a crash."""

from __future__ import annotations

from .line_schema import MEMBERS
from .support.log import LEVELS, OwnWords, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeVar

    Value = TypeVar("Value")
    Number = TypeVar("Number", int, float)

PREFIX = b"TRUEMEM_"

SETTING_NAMES = (
    *("ENABLED", "NAMESPACE", "DIMENSIONS", "PROPERTIES", "CPU_BUDGET"),
    *("OOM_SCORE_ADJ", "RESOURCES", "DETAIL", "LINES", "SETTLE", "JOURNAL", "AGGREGATE", "OUTPUT"),
    *("CPU_METRIC", "PORT", "LOG_LEVEL"),
)
EXEC_WRAPPER = "EXEC_WRAPPER"
"""The setting that only the wrapper of exact mode reads."""

ON_WORDS = ("true", "1", "yes", "on")
OFF_WORDS = ("false", "0", "no", "off")
AUTO, ALWAYS, OFF = "auto", "always", "off"
LESS = ("WARN", "ERROR", "FATAL")
"""Log levels of Lambda's at which it drops lines of INFO."""

EMF, JSON, OTLP, DOGSTATSD, PPROF = OUTPUTS = "emf", "json", "otlp", "dogstatsd", "pprof"
"""Where records go: a line with metrics for CloudWatch, a line without, an OpenTelemetry collector, an agent."""

VCPU_MIB = 1769
"""Memory size that buys one full vCPU (developer guide, "Configure Lambda function memory")."""

DIMENSIONS_LIMIT = 30
"""EMF: dimensions of one set, `FunctionName` included."""
DIMENSION_VALUE_LIMIT = 1024
NAME_LIMIT = 250
NAMESPACE_LIMIT = 255
NAME_SHOWN = 32
"""Characters of an unknown setting's name that is logged."""


class Invalid(OwnWords, ValueError):
    """A value cannot be used. Says what is wrong with it, and nothing of what is in it."""


class Config:
    def __init__(self, environ: Mapping[bytes, bytes]) -> None:
        self.problems: list[str] = []
        """One line for each value that could not be used, without the value, and for each unknown `TRUEMEM_` name: a
        typing error."""

        def setting(name: str, parse: Callable[[str], Value], default: Value, expected: str) -> Value:
            raw = environ.get(PREFIX + name.encode())
            if raw is None or not raw.strip():
                return default
            text = raw.decode("utf-8", "replace").strip()
            try:
                return parse(text)
            except ValueError as error:
                why = f" ({reason(error)})" if isinstance(error, Invalid) else ""
                self.problems.append(f"TRUEMEM_{name} is not {expected}{why}; using the default")
                return default

        setting("ENABLED", parse_switch, True, "true or false")  # __main__ has acted on it, before this is read
        self.namespace: str = setting("NAMESPACE", _namespace, "truemem", "a CloudWatch namespace")
        self.dimensions: dict[str, str] = setting("DIMENSIONS", _dimensions, {}, "Name=value,Name=value")
        """EMF dimensions beside `FunctionName`, in a second set. Each distinct value makes metrics of its own."""
        self.properties: dict[str, str] = setting("PROPERTIES", _pairs, {}, "name=value,name=value")
        """Fixed members of every line, such as a model version. Free, and queryable in Logs Insights."""
        self.cpu_budget: float = setting("CPU_BUDGET", _percent, 0.01, "a percentage from 0.01 to 50")
        """Share of the CPU that the memory size buys which sampling may use: a fraction, 0.01 is 1 %."""
        self.oom_score_adj: int = setting("OOM_SCORE_ADJ", _score, 100, "a whole number from 0 to 1000")
        """What the function's processes get at least, so that they die before us if memory runs out; 0: as it is."""
        self.resources: str = setting("RESOURCES", _one_of(AUTO, ALWAYS, OFF), AUTO, "auto, always or off")
        """When lines tell of /tmp, descriptors, threads and processes: if they matter, always, or never (and they are
        not read)."""
        self.detail: str = setting("DETAIL", _one_of(AUTO, ALWAYS), AUTO, "auto or always")
        """Which lines have all members: some of the ordinary ones, or each."""
        lines = setting("LINES", _lines, (0.0, False), "off, on, or a percentage up to 100%; with `,java` after it")
        self.lines_share: float = lines[0]
        """Share of the environments in which the function's preload may be asked for the lines that keep what grows: a
        fraction; 1 where it is `on`, and 0 where it is off."""
        self.lines_java: bool = lines[1]
        """May a JVM be asked for its classes? That is a full collection, twice."""
        self.settle: str = setting("SETTLE", _one_of(AUTO, OFF), AUTO, "auto or off")  # of the function's probe as well
        self.journal: bool = setting("JOURNAL", parse_switch, True, "true or false")
        """Keep what is not printed yet in a file in /tmp, for the next process of the environment."""
        self.aggregate_s: int = setting("AGGREGATE", _seconds, 0, "off, or seconds from 1 to 300")
        """Seconds that an ordinary invocation waits for others, to share a line of up to 100; 0: each has its own
        line."""
        self.cpu_metric: bool = setting("CPU_METRIC", parse_switch, False, "true or false")
        """Make a metric of an invocation's CPU time, too: each metric costs money."""
        self.outputs: tuple[str, ...] = setting("OUTPUT", _outputs, (EMF,), ", ".join(OUTPUTS) + ", or several")
        self.prints = EMF in self.outputs or JSON in self.outputs
        self.port: int = setting("PORT", _port, 0, "a port from 1024 to 65535")
        """Where the proxy of exact mode listens, for a runtime that no wrapper can point at it; 0: where it likes."""
        self.log_level: str = setting("LOG_LEVEL", _one_of(*LEVELS), "info", "info, warn, error or off")
        self.problems += _unknown(environ)

        self.initialization_type: str = _text(environ, b"AWS_LAMBDA_INITIALIZATION_TYPE")
        """`on-demand`, `provisioned-concurrency`, `snap-start` or `lambda-managed-instances`; "" if it is not said."""
        self.function_name: str = _text(environ, b"AWS_LAMBDA_FUNCTION_NAME") or "unknown"
        self.function_version: str = _text(environ, b"AWS_LAMBDA_FUNCTION_VERSION")
        self.memory_mib: int = _size(_text(environ, b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE"))
        """The memory limit in MiB, or 0 when the platform does not say."""
        self.level: str = level if (level := _text(environ, b"AWS_LAMBDA_LOG_LEVEL").upper()) in LESS else "INFO"
        """`level` of our lines: under LogFormat JSON, Lambda drops lines below the function's log level."""

    @property
    def exports(self) -> bool:
        """Are records sent somewhere, too?"""
        return not {*self.outputs} <= {EMF, JSON}

    @property
    def cpu_share(self) -> float:
        """CPU that the memory size buys, in vCPUs; 1 when the size is unknown."""
        return self.memory_mib / VCPU_MIB if self.memory_mib else 1.0


def _unknown(environ: Mapping[bytes, bytes]) -> Iterator[str]:
    """Says of each variable that it is no setting."""
    for variable in environ:
        name = variable.decode("latin-1").removeprefix("TRUEMEM_")
        if variable.startswith(PREFIX) and name not in (*SETTING_NAMES, EXEC_WRAPPER):
            shown = f"TRUEMEM_{name}" if _is_name(name) else "a variable that begins with TRUEMEM_"
            yield f"{shown} is not a setting; there are TRUEMEM_" + ", ".join(SETTING_NAMES)


def _text(environ: Mapping[bytes, bytes], name: bytes) -> str:
    return environ.get(name, b"").decode("utf-8", "replace")


def _size(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _is_name(text: str) -> bool:
    """Is the text a name as Lambda's variables have them, and not something else in the place of one?"""
    return text.isascii() and text.replace("_", "A").isalnum() and len(text) <= NAME_SHOWN


def parse_switch(text: str) -> bool:
    """A word for on or off. Raises ValueError for anything else."""
    word = text.strip().lower()
    if word not in ON_WORDS + OFF_WORDS:
        raise ValueError
    return word in ON_WORDS


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError
        return text.lower()

    return parse


def _within(number: Number, lowest: float, highest: float) -> Number:
    if not lowest <= number <= highest:
        raise ValueError
    return number


def _percent(text: str) -> float:
    return _within(float(text.rstrip("% ")), 0.01, 50) / 100


def _lines(text: str) -> tuple[float, bool]:
    share, comma, runtime = (part.strip() for part in text.partition(","))
    if comma and runtime.lower() != "java":
        raise ValueError
    return _share(share), bool(comma)


def _share(text: str) -> float:
    if text.endswith("%"):
        return _within(float(text[:-1]), 0, 100) / 100
    return float(parse_switch(text))


def _port(text: str) -> int:
    return _within(int(text), 1024, 65535)


def _score(text: str) -> int:
    return _within(int(text), 0, 1000)


def _outputs(text: str) -> tuple[str, ...]:
    names = tuple(part.strip().lower() for part in text.split(",") if part.strip())
    if not names or not set(names) <= set(OUTPUTS):
        raise ValueError
    return names


def _seconds(text: str) -> int:
    return 0 if text.lower() == "off" else _within(int(text), 0, 300)


def _namespace(text: str) -> str:
    if len(text) > NAMESPACE_LIMIT:
        raise Invalid(f"longer than {NAMESPACE_LIMIT} characters")
    if text.startswith("AWS/"):
        raise Invalid("AWS/ is reserved")
    if not all(c.isascii() and (c.isalnum() or c in "._-/#: ") for c in text):
        raise Invalid("letters, digits and ._-/#: only")
    return text


def _pairs(text: str, wrong: Callable[[str, str], str] = lambda *_: "") -> dict[str, str]:
    """`wrong` says of a name and a value what is wrong with them, or ""."""
    pairs: dict[str, str] = {}
    for number, part in enumerate(text.split(","), 1):
        if not part.strip():
            continue
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not value:
            raise Invalid(f"part {number} is not name=value")
        if name in MEMBERS:
            raise Invalid(f"{name} is a member of every line already")
        if len(name) > NAME_LIMIT:
            raise Invalid(f"part {number} has a name of more than {NAME_LIMIT} characters")
        if why := wrong(name, value):
            raise Invalid(f"part {number} {why}")
        pairs[name] = value
    return pairs


def _dimensions(text: str) -> dict[str, str]:
    pairs = _pairs(text, _wrong_with_dimension)
    if len(pairs) >= DIMENSIONS_LIMIT:
        raise Invalid(f"more than {DIMENSIONS_LIMIT - 1}")
    return pairs


def _wrong_with_dimension(name: str, value: str) -> str:
    if len(value) > DIMENSION_VALUE_LIMIT:
        return f"has a value of more than {DIMENSION_VALUE_LIMIT} characters"
    if name.startswith(":") or not (name + value).isascii() or not (name + value).isprintable():
        return "must be printable ASCII and not begin with a colon"
    return ""
