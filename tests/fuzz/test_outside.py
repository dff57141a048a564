"""Text from outside at each edge: it is shown and not obeyed; and any bytes at everything that reads them."""

import csv
import io
import json
import re
import unicodedata
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict
from rich.table import Table
from truemem_workbench import page
from truemem_workbench.answer import baseline
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.judge.drift import points
from truemem_workbench.judge.log_diagnosis import diagnose_log, read_log
from truemem_workbench.local import BadInput
from truemem_workbench.page.html import page as html_page
from truemem_workbench.printed.document import LARGEST
from truemem_workbench.printed.line import Line, parse_event, parse_line, read
from truemem_workbench.printed.log_files import events, kind_of
from truemem_workbench.printed.wrapped import Cut, inside
from truemem_workbench.support.terminal import console
from truemem_workbench.support.untrusted_text import MOST_DEPTH, cell, loads, markdown, script_json, visible
from truemem_workbench.target.events import read_event, read_events
from truemem_workbench.target.template import MOST_TEXT, from_template

from tests.fuzz.test_parsers import mutated
from tests.report.written import line

HOSTILE = [
    *("\x1b]52;c;eA==\x07", "\x1b]8;;x\x1b\\", "\x1b[2J", "\x9b2J", "\u202e", "\u2066"),
    *("\u2028", "\r", "\n", "\0", "\x85"),
    *("[api]", "[/]", "[bold]", "\\[", ":smile:", "=1+1", "+1", "-1", "@x", "\t=1"),
    *("\uff1d1", "'", '"', ";--", ","),
    *("</script>", "<!--", "<script>", "]]>", "<img src=x onerror=1>", "&lt;", "{{script}}", "$\\frac$", "$$"),
    *("\ud800", "\udfff", "\ufffe", "\U000e0041", "\ufeff", "ü", "日本", "👩‍👩‍👧"),
    *("می‌خواهم", "é", "|", "`", "![a](b)", "%0A"),
]  # fmt: skip
ANY = st.text(st.characters(), max_size=30)
TEXT = st.lists(st.sampled_from(HOSTILE) | ANY, max_size=5).map("".join)


def is_seen(character: str) -> bool:
    """Is it no command to a terminal, and can UTF-8 and XML have it?"""
    if character in "\u200c\u200d":
        return True
    kind = unicodedata.category(character)
    turned = unicodedata.bidirectional(character) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return kind not in ("Cc", "Cs", "Zl", "Zp") and not turned and character not in "\ufffe\uffff\ufeff"


def unescaped(text: str) -> str:
    """`visible` undone, of a text without backslashes."""

    def character(found: re.Match[str]) -> str:
        return found[0].encode().decode("unicode_escape")

    joined = re.sub(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|[nr])", character, text)
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def squeezed(text: str) -> str:
    return "".join(text.split())


# --- the edges --------------------------------------------------------------------------------------------------------


@given(TEXT)
def test_terminal_no_character_is_obeyed_and_none_is_lost(text: str) -> None:
    shown = visible(text)
    assert all(map(is_seen, shown))
    assert visible(shown) == shown
    paired = text.replace("\\", "/").replace("\t", " ")
    with suppress(UnicodeDecodeError):  # half a pair stays an escape
        assert unescaped(visible(paired)) == paired.encode("utf-16", "surrogatepass").decode("utf-16")


@given(st.text(st.characters(categories=("L", "M", "N", "P", "S", "Zs")), max_size=30))
@example("👩‍👩‍👧 می‌خواهم É 日本 [$LATEST] \u00a0")
def test_terminal_ordinary_unicode_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@given(st.recursive(st.none() | st.integers() | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)))
def test_terminal_a_line_of_json_stays_the_same_document(document: object) -> None:
    text = json.dumps(document, ensure_ascii=False).replace("\x7f", "\\u007f")
    with suppress(UnicodeEncodeError):
        text.encode()
        assert json.loads(visible(text)) == document


@given(st.lists(TEXT, min_size=4, max_size=4))
def test_tables_show_every_text_as_it_is(texts: list[str]) -> None:
    file = io.StringIO()
    made = console(file=file, width=4000, force_terminal=False)
    table = Table(title=texts[0])
    table.add_column(texts[1], overflow="fold")
    table.add_row(texts[2])
    made.print(table)
    made.print(f"- {texts[3]}", soft_wrap=True)
    out = file.getvalue()

    assert all(is_seen(each) for each in out if each != "\n")
    assert all(squeezed(visible(text)) in squeezed(out) for text in texts)


@given(st.lists(TEXT | st.integers() | st.floats(allow_nan=False), min_size=1, max_size=4))
def test_csv_gives_the_same_cell_or_the_guarded_one(row: list[Any]) -> None:
    file = io.StringIO(newline="")
    csv.writer(file).writerow([cell(each) for each in row])
    (back,) = csv.reader(io.StringIO(file.getvalue(), newline=""))

    for each, found in zip(row, back, strict=True):
        if isinstance(each, str):
            assert found in (visible(each), f"'{visible(each)}")
            assert not found.lstrip().startswith(("=", "+", "-", "@"))
            assert all(map(is_seen, found))
        else:
            assert type(each)(found) == each


class Elements(HTMLParser):
    """Of a page: the elements that begin in it, and the text of each."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.begun: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.begun.append(tag)
        self.texts.append("")

    def handle_data(self, data: str) -> None:
        if self.texts:
            self.texts[-1] += data


@given(st.recursive(TEXT | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=5))
def test_html_sees_the_text_and_no_new_element(value: object) -> None:
    found = Elements(f'<script type="application/json">{script_json(value)}</script><b>x</b>')

    assert found.begun == ["script", "b"]
    assert json.loads(found.texts[0]) == json.loads(json.dumps(value))


def named(function: str, version: str, environment: str, extension: str) -> dict[str, Any]:
    """The members of a line that others have chosen."""
    holders = {"function": 1.0, "truemem": 1.0, "extensions": {extension: 1.0}}
    return {"FunctionName": function, "functionVersion": version, "environmentId": environment, "holders": holders}


@settings(max_examples=25)
@given(st.lists(TEXT, min_size=6, max_size=6))
def test_the_page_has_no_more_elements_than_any(texts: list[str]) -> None:
    def elements(request: str, error: str, *names: str) -> list[str]:
        members = {**named(*names), "requestId": request, "status": "error", "errorType": error}
        return Elements(html_page(page.gather(parse_event(line("a", 1, **members))))).begun

    assert elements(*texts) == elements(*"abcdef")


@given(TEXT)
def test_markdown_is_the_text_and_no_markup(text: str) -> None:
    made = markdown(text)
    assert "&" not in re.sub(r"&#\d+;", "", made)
    assert re.sub(r"&#(\d+);", lambda found: chr(int(found[1])), made) == visible(text)
    assert not set("<>[]`*|\\") & set(made)


# --- the readers ------------------------------------------------------------------------------------------------------

TOKENS = [
    *("null", "true", "false", "0", "-1", "1e400", "-1e400", "1e308", "3.5e38", "NaN"),
    *("Infinity", "-Infinity", '""', "[]"),
    *("1" + "0" * 400, "9" * 5000, "1" + "0" * 30, '"\\ud800"', '"\\u0000"'),
    *('"\\u001b]52;c;eA==\\u0007"', '"[/api]"'),
    *("{}", '{"a":1,"a":2}', '{"extensions":{"x":1e400,"y":true}}', '{"Timestamp":9e99}', '{"Timestamp":true}'),
    *("[" * 150 + "]" * 150, "[" * 300 + "]" * 300, '{"a":' * 3000, "[1,2,3]", '"a b c"'),
    *('{"inUse":1e300,"held":1}'),
    *('{"inUse":1' + "0" * 400 + ',"held":1,"mapped":1}', "1" + "0" * 39),
    '{"requestId":"a b c","invocation":[1,"x"],"startMs":[0,true,1e400],"raced":[0,[],{}]}',
]  # fmt: skip
PLAIN: dict[str, Any] = json.loads(line("a", 1, heap={"inUse": 1.0, "held": 2.0, "mapped": 3.0}, processes=1))
ODD = ("aggregate", "raced", "recovered", "dropped", "coldStart", "suppressedInit", "outOfMemory", "tenantId")
MEMBERS = [*PLAIN, *ODD]


@st.composite
def hostile_lines(draw: st.DrawFn) -> str:
    """A line of the sidecar with some members replaced, some of them twice."""
    members = [(name, json.dumps(value)) for name, value in PLAIN.items()]
    value = st.sampled_from(TOKENS) | TEXT.map(json.dumps)
    for name, token in draw(st.lists(st.tuples(st.sampled_from(MEMBERS), value), max_size=5)):
        replaced = [each for each in members if each[0] != name or draw(st.booleans())]
        members = [*replaced, (name, token)]
    return "{" + ",".join(f"{json.dumps(name)}:{token}" for name, token in members) + "}"


def figures(line: Line) -> list[float]:
    return [value for value in asdict(line).values() if isinstance(value, float)]


@given(hostile_lines() | TEXT)
@example('{"_aws":{},"schema":1,"environmentId":"a","PeakRSS":1' + "0" * 400 + "}")
@example("[" * 100_000)
@example("9" * 5000)
def test_parse_line_never_raises(text: str) -> None:
    for record in [parse_line(text), *parse_event(f"prefix {text}")]:
        assert record is None or all(abs(value) <= LARGEST for value in figures(record))


@given(st.lists(hostile_lines(), max_size=6))
def test_curves_and_pages_are_made_of_any_lines(texts: list[str]) -> None:
    made: list[Line] = [each for text in texts for each in parse_event(text)]
    points(made)
    environments = page.gather(made)
    html_page(environments)
    list(diagnose_log(read_log(texts), "docs"))


@given(
    st.lists(TEXT | st.sampled_from(["truemem WARN ", "REPORT RequestId: ", "truemem INFO method="]) | hostile_lines())
)
def test_symptoms_of_any_log(texts: list[str]) -> None:
    for finding in diagnose_log(read_log([*texts, "".join(texts)]), "docs"):
        assert finding.text


SEEDS = [
    "\n".join([line("a", 1), "START RequestId: x", line("a", 2)]).encode(),
    ('timestamp,message\n1,"' + line("a", 1).replace('"', '""') + '"\n').encode(),
    json.dumps([{"@message": line("a", 1)}, {"message": {"a": [1]}}]).encode(),
    json.dumps({"events": [{"message": line("a", 1), "timestamp": 1}]}).encode(),
    json.dumps({"log": json.dumps({"record": line("a", 1)}) + "\n", "stream": "stdout"}).encode() + b"\n",
    2 * json.dumps({"logEvents": [{"message": line("a", 1)}]}).encode(),
    json.dumps({"message": line("a", 1), "timestamp": 1}).encode() + b'\n{"message":"x","timestamp":1}\n',
    b"2026 " + json.dumps(json.loads(line("a", 1)), indent=4).encode() + b"\n",
    line("a", 1).encode("utf-16"),
    b"\x1f\x8b" + b"0" * 40,
    b"\n\nmessage\nx\n",
    b'"message\r"\n1\n',
    b"message\n" + b"x" * 200_000,
]
ENCODED = TEXT.map(lambda text: text.encode(errors="replace"))
FILES = st.sampled_from(SEEDS).flatmap(mutated) | st.binary(max_size=200) | ENCODED


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outside")


@given(data=FILES)
def test_any_file_is_a_log_or_bad_input(folder: Path, data: bytes) -> None:
    path = folder / "log"
    path.write_bytes(data)
    with suppress(BadInput):
        kind_of(path)
        assert all(isinstance(found, str | dict | Cut) for event in events(path) for found in inside(event))
        assert all(isinstance(each, Line) for each in read([path]))


@settings(max_examples=20)
@given(
    names=st.lists(TEXT, min_size=4, max_size=4),
    lines=st.lists(hostile_lines() | TEXT, min_size=1, max_size=5),
    form=st.sampled_from([[], ["--format", "csv"], ["--json"]]),
)
def test_the_report_prints_any_log(folder: Path, names: list[str], lines: list[str], form: list[str]) -> None:
    path = folder / "fleet.log"
    function, version, *others = (name.encode(errors="replace").decode() for name in names)
    own = [line("a", number, **named(function, version, *others)) for number in (1, 2)]
    path.write_text("\n".join([*own, *lines]), encoding="utf-8", errors="surrogatepass")
    arguments = ["report", str(path), "--by", "FunctionName", *form]
    ran = CliRunner(env={"COLUMNS": "4000"}).invoke(cli, arguments, standalone_mode=False)

    assert ran.exception is None, ran.exception
    assert all(is_seen(each) for each in ran.output.replace("\r\n", "") if each != "\n")
    assert form or all(squeezed(visible(name)) in squeezed(ran.output) for name in (function, version))
    if "csv" in form:
        rows = csv.DictReader(io.StringIO(ran.output, newline=""))
        assert not any(row["function"].lstrip().startswith(("=", "+", "-", "@")) for row in rows)


ATOMS = [
    *("&a ", "*a", "<<: ", "!Ref ", "!Sub ", "!GetAtt ", "!!int ", "!!float "),
    *("!!bool x", "!!timestamp x", "!!binary ="),
    *("!!null x", "!!set {a}", "2001-99-99", "0x" + "f" * 6000, "9" * 5000, "1:2:3"),
    *(".inf", ".nan", '"\\0"', '"\\ud800"'),
    *("{", "}", "[", "]", "- ", ": ", "? ", "\n", "\n  ", "~", "yes", "'", '"', "|", ">"),
    *("#", "%", "---\n", "\t", "[" * 80),
]  # fmt: skip
TEMPLATE = """\
Globals: {Function: {Timeout: 30, Layers: [!Ref Layer], Environment: {Variables: {A: !Sub "${B}", N: 1}}}}
Parameters: {B: {Type: String, Default: b}}
Resources:
  F: &f
    Type: AWS::Serverless::Function
    Properties:
      Handler: app.handler
      Runtime: python3.11
      CodeUri: src
      MemorySize: 256
      Environment:
        Variables: {C: !Ref B, D: !Sub ["${x}", {x: !Ref B}], E: {"Ref": [1]}}
  G: *f
"""


@st.composite
def templates(draw: st.DrawFn) -> str:
    text = TEMPLATE
    for _ in range(draw(st.integers(0, 4))):
        spans = [found.span() for found in re.finditer(r"[A-Za-z0-9.$]+|[^A-Za-z0-9]", text)]
        begin, end = draw(st.sampled_from(spans))
        text = text[:begin] + draw(st.sampled_from(ATOMS) | TEXT) + text[end:]
    return text


def template(folder: Path, text: str) -> Path:
    """The file, and the code of its functions."""
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src/app.py").write_text("def handler(event, context): ...\n")
    path = folder / "template.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return path


@given(text=templates())
def test_any_template_is_one_or_bad_input(folder: Path, text: str) -> None:
    path = template(folder, text)
    with suppress(BadInput):
        target = from_template(path, "F")
        assert sum(map(len, target.environment.values())) < 10 * MOST_TEXT


def test_the_template_of_these_tests_is_one(folder: Path) -> None:
    assert yaml.compose(TEMPLATE) is not None
    assert from_template(template(folder, TEMPLATE), "G").environment == {"A": "b", "N": "1", "C": "b", "D": "b"}


JSON_SEEDS = [
    b'{"schema": 1, "functions": {"f": {"peak": 1, "current": 2, "about": {"a": 1}}}}',
    b'{"schema": 1, "functions": {"f": {"peak": 1' + b"0" * 400 + b', "current": 2, "about": [1]}}}',
    b'{"a": 1}\n{"a": 2}\n',
    b"[1, 2, 3]",
    b"[" * 5000,
    b"[" * 300 + b"]" * 300,
    b"9" * 5000,
    b"NaN",
]


@given(data=st.sampled_from(JSON_SEEDS).flatmap(mutated) | st.sampled_from(JSON_SEEDS) | st.binary(max_size=100))
def test_any_file_of_events_or_baseline_is_one_or_bad_input(folder: Path, data: bytes) -> None:
    path = folder / "file.json"
    path.write_bytes(data)
    with suppress(BadInput):
        json.dumps(read_events(path), allow_nan=False)
    with suppress(BadInput):
        json.dumps(read_event(f"@{path}"), allow_nan=False)
    with suppress(BadInput):
        baseline.read_baseline(path, "f").differs({})
    with suppress(BadInput):
        baseline.check_place(path)


@given(st.sampled_from(JSON_SEEDS).flatmap(mutated) | st.binary(max_size=100))
def test_json_of_any_bytes_is_a_value_or_a_value_error(data: bytes) -> None:
    for text in (data, data.decode(errors="replace")):
        for lenient in (True, False):
            with suppress(ValueError):
                json.dumps(loads(text, lenient=lenient))


@pytest.mark.parametrize("brackets", [("[", "]"), ('{"a":', "}")])
def test_json_depth_does_not_depend_on_the_caller(brackets: tuple[str, str]) -> None:
    begin, end = brackets
    assert loads(begin * MOST_DEPTH + "1" + end * MOST_DEPTH)
    for depth in (MOST_DEPTH + 1, 900, 100_000):
        with pytest.raises(ValueError, match="nested deeper than 200"):
            loads(begin * depth + "1" + end * depth)
