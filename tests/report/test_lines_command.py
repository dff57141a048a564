"""`truemem lines`: the lines of code that functions have named where they run."""

import json
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from testing.browser import Browser
from tests.attach.pages import block
from tests.report.conftest import Command, put_events
from tests.report.profiled import growth_line, with_profile
from tests.report.written import life, line, log

HERE = Path(__file__).parent
OTHER = growth_line(
    400.0, 7, file="lib/x.mjs", function="put", share=0.25, stack=["app.mjs:31 handler", "lib/x.mjs:7 put"]
)


def of(environment: str, *growth_lines: Any, version: str = "41", **profile: Any) -> list[str]:
    """A short life with a profile."""
    lines = life(environment, 3, functionVersion=version)
    return with_profile(lines, *growth_lines, at=2, **profile)


@pytest.fixture
def lines(truemem: Command, tmp_path: Path) -> Callable[..., Any]:
    """`truemem lines --json` of a log with these lines."""
    return lambda texts, *more: truemem("lines", log(tmp_path, texts), "--json", *more).document


def test_it_prints_the_line_its_stack_and_its_cost(truemem: Command, tmp_path: Path) -> None:
    ran = truemem("lines", log(tmp_path, [*of("a", growth_line(), OTHER), *of("b", gaveUp="cpu")]))
    assert ran.code == 0
    for text in (
        "orders:41: what grew, by line of code (profiled: 2 environments, 60 invocations)",
        "app.mjs:12   save                 1,000.0    97%        1 of 1",
        "lib/x.mjs:7  put                    400.0    25%        1 of 1",
        "  app.mjs:12: app.mjs:30 handler > app.mjs:12 save",
        "0.4 KiB per invocation are in no line.",
        "The profile cost, at most: 12.5% more CPU in an invocation, 410 KiB, 85 ms of looks.",
        "1 of 2 environments gave up: cpu (1).",
    ):
        assert text in ran.out
    assert ran.out.splitlines()[-1] == "Next: truemem explain app.mjs:handler"


@pytest.mark.parametrize("exported", ["exports.handler", "module.exports.handler"])
def test_the_next_command_has_a_commonjs_handler(truemem: Command, tmp_path: Path, exported: str) -> None:
    line = growth_line(
        1000.0, 7, file="two.cjs", function="put", share=1.0, stack=[f"two.cjs:3 {exported}", "two.cjs:7 put"]
    )
    ran = truemem("lines", log(tmp_path, of("a", line)))
    assert ran.out.splitlines()[-1] == "Next: truemem explain two.cjs:handler"


MINIFIED = growth_line(
    1000.0, 1, file="index.js", column=510, function="s", stack=["index.js:1:597 l", "index.js:1:510 s"]
)


def test_minified_code_is_told_with_its_column(truemem: Command, tmp_path: Path) -> None:
    ran = truemem("lines", log(tmp_path, of("a", MINIFIED)))
    assert "index.js:1:510  s" in ran.out
    assert "no source map was beside it: deploy the map, or say --source-maps FOLDER" in ran.out
    assert ran.out.splitlines()[-1] == "Next: truemem explain index.js:HANDLER"


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on the path")
def test_a_folder_of_source_maps_gives_the_lines(truemem: Command, tmp_path: Path) -> None:
    built = HERE.parent / "lines" / "functions" / "node" / "built"
    file = log(tmp_path, of("a", MINIFIED))
    document = truemem("lines", file, "--json", "--source-maps", built / "esbuild").document
    (line,) = document["versions"][0]["lines"]
    assert (Path(line["file"]).name, line["line"]) == ("store.ts", 10)
    assert "column" not in line
    assert line["stack"][-1].endswith("src/store.ts:10 (minified)")


@pytest.mark.parametrize("file", ["src/index.ts", "src/index.tsx"])
def test_a_source_is_not_what_can_be_explained(truemem: Command, tmp_path: Path, file: str) -> None:
    line = growth_line(file=file, stack=[f"{file}:30 handler"])
    ran = truemem("lines", log(tmp_path, of("a", line)))
    assert ran.out.splitlines()[-1] == "Next: truemem explain BUILT/index.js:handler"


def test_the_page_shows_what_it_prints(truemem: Command, tmp_path: Path) -> None:
    ran = truemem("lines", log(tmp_path, [*of("a", growth_line(39.1)), *of("b", growth_line(39.1))]))
    assert [text.strip() for text in ran.out.splitlines() if text.strip()] == [
        text.strip() for text in block("patterns.md", "lines").splitlines() if text.strip()
    ]


def test_environments_are_merged_by_their_invocations(lines: Callable[..., Any]) -> None:
    made = lines([*of("a", growth_line(1000.0)), *of("b", growth_line(400.0), invocations=180), *of("c")])
    (version,) = made["versions"]
    (named,) = version["lines"]
    assert named["perInvocationKiB"] == pytest.approx((1000 * 60 + 400 * 180) / 300)
    assert (named["environments"], version["environments"], version["invocations"]) == (2, 3, 300)


def releases(*versions: str) -> list[str]:
    """Each version names another size, and its line has moved by two."""
    return [
        text
        for at, version in enumerate(versions)
        for text in of(version, growth_line(1000.0 / (at + 1), 12 + 2 * at), version=version, invocations=60)
    ]


@pytest.mark.parametrize(
    ("options", "compared"),
    [([], ("42", "43")), (["--version", "43", "--version", "41"], ("43", "41")), (["--version", "42"], None)],
)
def test_before_is_compared_with_after(
    lines: Callable[..., Any], options: list[str], compared: tuple[str, str] | None
) -> None:
    texts = releases("41", "42", "43")
    for at, text in enumerate(texts):  # 43 was deployed last
        members = json.loads(text)
        members["_aws"]["Timestamp"] += 1_000_000 * at
        texts[at] = json.dumps(members)
    made = lines(texts, *options)
    if compared is None:
        assert (made["compared"], len(made["versions"])) == ([], 1)
        return
    (found,) = made["compared"]
    assert (found["before"], found["after"]) == compared
    (change,) = found["changes"]
    kib = {"41": 1000.0, "42": 500.0, "43": pytest.approx(1000 / 3, abs=0.001)}
    assert (change["beforeKiB"], change["afterKiB"]) == tuple(kib[version] for version in compared)
    assert change["function"] == "save"
    assert change["beforeLines"] != change["afterLines"]


def test_two_versions_are_a_table_and_older_ones_are_named(truemem: Command, tmp_path: Path) -> None:
    gave_up = of("d", gaveUp="cpu", cpuPercent=None)  # at the same time as a profile of 41
    out = truemem("lines", log(tmp_path, [*releases("41", "42", "43"), *gave_up])).out
    assert "orders: KiB per invocation, before and after" in out
    assert "app.mjs:16  save      500.0  333.3  -166.7" in out
    assert "Older versions were profiled too: orders:41." in out
    assert "orders:41: what grew" not in out


@pytest.mark.parametrize(("profile", "said"), [({"gaveUp": "memory"}, "gave up: memory (1)"), ({}, "no line is named")])
def test_no_line_is_exit_code_1(truemem: Command, tmp_path: Path, profile: dict[str, Any], said: str) -> None:
    ran = truemem("lines", log(tmp_path, of("a", **profile)))
    assert ran.code == 1
    assert said in ran.out
    assert ran.out.splitlines()[-1] == "Next: truemem events orders --since 1h --output events.jsonl"


@pytest.mark.parametrize("more", [(), ("--version", "9")])
def test_nothing_to_read_says_what_to_attach(truemem: Command, tmp_path: Path, more: tuple[str, ...]) -> None:
    texts = of("a", growth_line()) if more else life("a", 3)
    assert "truemem attach NAME --lines" in truemem("lines", log(tmp_path, texts), *more).refusal


def test_a_function_may_print_what_it_likes(truemem: Command, tmp_path: Path) -> None:
    hostile = growth_line(file="/etc/passwd", line=1, function="\x1b[2J<b>", stack=["\x1b]0;x", "/etc/passwd:1 x"])
    texts = [*of("a", hostile), *of("b", "no object", 7, {"file": 1}, gaveUp=["x"], libraries="x")]
    page = tmp_path / "growth.html"
    ran = truemem("lines", log(tmp_path, texts), "--output", page)
    assert "\x1b" not in ran.out
    assert "\\x1b[2J<b>" in ran.out
    drawn = page.read_text(encoding="utf-8")
    assert Path("/etc/passwd").read_text().splitlines()[0] not in drawn  # the log chooses no file of this machine
    assert "<b>" not in drawn.partition("<script")[0]


def test_the_speedscope_file_is_one(truemem: Command, tmp_path: Path) -> None:
    """Against speedscope's own schema of its files (MIT license)."""
    path = tmp_path / "growth.speedscope.json"
    texts = [*of("a", growth_line(), OTHER), *of("b", version="42")]
    assert truemem("lines", log(tmp_path, texts), "--output", path).code == 0
    made = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(made, json.loads((HERE / "speedscope_schema.json").read_text(encoding="utf-8")))
    first, rest = made["profiles"]
    assert (first["name"], first["weights"]) == ("orders:41", [1_024_000, 409_600, 410])
    assert [made["shared"]["frames"][frame]["name"] for (frame,) in rest["samples"]] == ["(in no line)"]
    names = [made["shared"]["frames"][frame] for frame in first["samples"][0]]
    assert names == [
        {"name": "handler", "file": "app.mjs", "line": 30},
        {"name": "save", "file": "app.mjs", "line": 12},
    ]


def test_the_browser_draws_each_version(started: Browser, truemem: Command, tmp_path: Path) -> None:
    started.complaints.clear()
    started.requests.clear()
    path = tmp_path / "growth.html"
    assert truemem("lines", log(tmp_path, releases("41", "42")), "--output", path).code == 0
    path.write_text(path.read_text().replace("<html ", "<html data-ready ", 1), encoding="utf-8")
    started.open(path)
    started.until("document.querySelectorAll('.graph div').length >= 6")
    drawn = started.js("[...document.querySelectorAll('.graph div')].map((each) => each.textContent).join()")
    assert "app.mjs:12 save500.0 KiB per invocation" in drawn
    assert "1,000.0 KiB per invocation" in drawn
    assert "orders:42" in started.text("body")
    assert (started.complaints, started.requests) == ([], [])


def test_json_of_standard_input_can_be_written_too(truemem: Command, tmp_path: Path) -> None:
    path = tmp_path / "growth.json"
    ran = truemem("lines", "-", "--json", "--output", path, stdin="\n".join(of("a", growth_line())))
    assert json.loads(path.read_text(encoding="utf-8")) == ran.document
    assert ran.document["versions"][0]["cpuPercent"] == 12.5
    assert (
        "its ending is not .html or .speedscope.json or .pb.gz"
        in truemem("lines", path, "--output", "growth.png").refusal
    )


# --- CloudWatch -------------------------------------------------------------------------------------------------------


def put(logs: Any, name: str, texts: Sequence[str], ago_h: float = 5) -> None:
    at = int(time.time() * 1000 - ago_h * 3_600_000)
    dated = [json.dumps({**json.loads(text), "_aws": {"Timestamp": at, "CloudWatchMetrics": []}}) for text in texts]
    put_events(logs, f"/aws/lambda/{name}", "a", [(at, text) for text in ["START", *dated, line("z", 1)]])


@pytest.mark.parametrize("options", [[], ["--source", "filter"]])
def test_a_function_in_aws_is_read_by_its_name(truemem: Command, aws: Callable[[str], Any], options: list[str]) -> None:
    put(aws("logs"), "orders", of("a", growth_line()))
    for named in (["orders"], ["--function", "orders"], ["--log-group", "/aws/lambda/orders"]):
        made = truemem("lines", *named, "--json", *options).document
        assert made["versions"][0]["lines"][0]["line"] == 12, named
    assert "truemem attach orders --lines" in truemem("lines", "orders", "--since", "1h", *options).refusal


def test_only_lines_with_a_profile_are_fetched(
    truemem: Command, aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import botocore.client

    asked: list[dict[str, Any]] = []
    call = botocore.client.BaseClient._make_api_call  # type: ignore[attr-defined]

    def record(self: Any, operation: str, arguments: dict[str, Any]) -> Any:
        asked.append(arguments)
        return call(self, operation, arguments)

    put(aws("logs"), "orders", of("a", growth_line()))
    monkeypatch.setattr("botocore.client.BaseClient._make_api_call", record)
    assert truemem("lines", "orders").code == 0
    assert truemem("lines", "orders", "--source", "filter").code == 0
    queries = [each["queryString"] for each in asked if "queryString" in each]
    assert queries
    assert all('like "growthProfile"' in each for each in queries)
    assert [each["filterPattern"] for each in asked if "filterPattern" in each] == ['"growthProfile"']
