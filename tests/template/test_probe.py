"""The probe: its function under the local Lambda, its stack in moto, its page from real answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from click.testing import CliRunner
from truemem_workbench.local import Function, LocalLambda, Settings
from truemem_workbench.testing.environment import SIDECAR

from probe import page, questions, stack
from probe.__main__ import main
from probe.variants import ARCHIVES, VARIANTS
from tests.template.stack import EMPTY_ZIP, Account

pytestmark = pytest.mark.filterwarnings("ignore:Tried to parse")

SOURCE = Path(stack.__file__).with_name("function") / "lambda_function.py"
PAGE = Path(__file__).parents[2] / "docs" / "verified.md"
NOT_YET = "not yet verified on the service"
MIB = 20
"""Enough to be seen."""

Asked = dict[str, Any]


def served(name: str) -> LocalLambda:
    """The probe with the sidecar, as a function of that name."""
    settings = Settings(name=name, memory_mib=512, extensions=[SIDECAR])
    return LocalLambda(Function.from_handler(f"{SOURCE}:handler"), settings)


def client(local: LocalLambda) -> Any:
    """boto3's, of the local Lambda: the same that asks the service."""
    session = boto3.session.Session("testing", "testing", region_name="eu-central-1")
    return session.client("lambda", endpoint_url=local.endpoint, config=Config(retries={"total_max_attempts": 1}))


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    small = tuple({**each, "mib": MIB} if "mib" in each else each for each in questions.QUESTIONS)
    with pytest.MonkeyPatch.context() as patch, served("probe") as local:
        patch.setattr(questions, "QUESTIONS", small)
        yield questions.ask(client(local), "probe", lambda _: None)


def test_every_step_is_recorded_and_none_of_them_breaks(asked: Asked) -> None:
    found = asked["answers"][0]["steps"]
    assert {step for _, step, _ in page.ROWS} <= set(found)
    for name, outcome in found.items():
        assert outcome["ok"] or outcome.get("errno"), (name, outcome)  # a refusal has a number; a defect would not


def test_this_kernel_permits_what_the_sidecar_needs(asked: Asked) -> None:
    found = asked["answers"][0]["steps"]
    assert found["clear_refs own"]["value"]["works"] is True
    other = found["clear_refs other"]["value"]
    assert other["after"]["VmHWM"] - other["after"]["VmRSS"] < 1024  # KiB: the mark is at the level again
    for name in ("clear_refs other", "clear_refs other by its parent", "status other", "environ other", "fd other"):
        assert found[name]["ok"], (name, found[name])
    assert found["SO_TIMESTAMPNS"]["ok"]
    assert found["oom_score_adj raise"]["value"]["after"] > found["oom_score_adj raise"]["value"]["before"]


def test_files_are_moved_without_being_held(asked: Asked) -> None:
    _, start, code, _, write, read = asked["answers"]
    assert write["bytes"] == read["bytes"] == MIB << 20
    assert 0 < code["bytes"] <= MIB << 20
    for answer in (code, write, read):
        assert answer["rss"]["value"]["VmRSS"] - start["rss"]["value"]["VmRSS"] < MIB / 2 * 1024


def test_the_mark_of_each_report_is_kept_and_never_falls(asked: Asked) -> None:
    marks = [answer["maxMemoryUsedMiB"] for answer in asked["answers"]]
    assert marks == sorted(marks)
    assert marks[0] > 0


def test_what_the_sidecar_found_is_kept(asked: Asked) -> None:
    assert asked["sidecar"].startswith("truemem INFO method=")


def test_answers_become_rows(asked: Asked) -> None:
    table = page.table({"zip-x86_64": asked, "zip-arm64": asked}, "2026-01-31", "eu-central-1")
    lines = table.splitlines()
    assert "on 2026-01-31, in eu-central-1" in lines[0]
    rows = {line.split(" | ")[0].strip("| "): line for line in lines[2:]}
    assert {question for question, _, _ in page.ROWS} | set(page.MARKS) <= set(rows)
    assert all(line.count(" | ") == 2 for line in rows.values() if not line.startswith("|--"))
    assert "works: " in rows["reset of a process's own watermark"]
    assert "yes" in rows["all in one environment"]
    assert f"{MIB} MiB moved" in rows["after it was read"]


def test_a_refusal_shows_its_errno(asked: Asked) -> None:
    refused = json.loads(json.dumps(asked))
    refused["answers"][0]["steps"]["clear_refs other"] = {"ok": False, "errno": "EACCES", "error": "..."}
    refused["answers"][-1]["born"] += 1
    table = page.table({"zip-x86_64": refused}, "2026-01-31", "eu-central-1")
    assert "| reset of another's, same uid | no: EACCES |" in table
    assert "| all in one environment | no: ask again |" in table


def test_until_it_has_run_the_page_says_so() -> None:
    text = PAGE.read_text()
    if not PAGE.with_suffix(".json").exists():
        assert NOT_YET in text.lower()
    assert NOT_YET not in page.placed(text, "a table").lower()


@pytest.fixture
def deploy(account: Account, tmp_path: Path) -> Callable[..., Any]:
    """`stack.deployed` of some variants in moto, with zips as `make layer` would have left them."""
    for name in ARCHIVES.values():
        (tmp_path / name).write_bytes(EMPTY_ZIP)
    services = account.client("s3"), account.client("cloudformation")
    return lambda *names: stack.deployed(
        *services, [VARIANTS[name] for name in names], dist=tmp_path, images={}, memory_mib=512, say=lambda _: None
    )


def present(account: Account) -> tuple[set[str], set[str]]:
    """The names of all buckets and stacks."""
    buckets = account.client("s3").list_buckets()["Buckets"]
    stacks = account.client("cloudformation").describe_stacks()["Stacks"]
    return {each["Name"] for each in buckets}, {each["StackName"] for each in stacks}


def test_it_is_deployed_asked_and_removed(deploy: Callable[..., Any], account: Account) -> None:
    before = present(account)
    with deploy("zip-x86_64", "zip-arm64") as functions:
        assert set(functions) == {"zip-x86_64", "zip-arm64"}
        assert [len(now - then) for now, then in zip(present(account), before, strict=True)] == [1, 1]
        found = account.client("lambda").get_function_configuration(FunctionName=functions["zip-x86_64"])
        assert (found["Handler"], found["Runtime"]) == ("lambda_function.handler", "python3.13")
        with served(functions["zip-x86_64"]) as local:  # moto runs no function: this one has its name
            answer = client(local).invoke(FunctionName=functions["zip-x86_64"], Payload=b'{"do": "nothing"}')
            assert json.loads(answer["Payload"].read())["do"] == "nothing"
    assert present(account) == before


def test_nothing_stays_behind_when_asking_fails(deploy: Callable[..., Any], account: Account) -> None:
    before = present(account)
    with pytest.raises(questions.ProbeFailed), deploy("zip-x86_64"):
        raise questions.ProbeFailed("the function cannot be run")
    assert present(account) == before


def test_a_function_that_fails_is_one_line() -> None:
    with pytest.MonkeyPatch.context() as patch, served("probe") as local:
        patch.setattr(questions, "QUESTIONS", ({"do": "dance"},))
        with pytest.raises(questions.ProbeFailed, match=r"probe failed at .*dance.*is one of environment"):
            questions.ask(client(local), "probe", lambda _: None)


def test_raw_answers_make_the_page_again(asked: Asked, tmp_path: Path) -> None:
    raw, target = tmp_path / "raw.json", tmp_path / "verified.md"
    raw.write_text(json.dumps({"day": "2026-01-31", "region": "eu-central-1", "results": {"zip-x86_64": asked}}))
    target.write_text(PAGE.read_text())
    done = CliRunner().invoke(main, ["--from", str(raw), "--page", str(target)])
    assert done.exit_code == 0, done.output
    assert "| question | zip-x86_64 |" in target.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--image", "image-arm64"], "try image-x86_64=URI or image-arm64=URI"),
        (["--variant", "image-arm64"], "needs its image: --image image-arm64=URI"),
        (["--from", "/no/such/file"], "No such file"),
        (["--dist", "/no/such/folder"], "Run make layer"),
    ],
)
def test_what_cannot_be_is_one_line(arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 1
    assert said in done.output
    assert done.output.startswith("nothing verified: ")
    assert done.output.count("\n") == 1
