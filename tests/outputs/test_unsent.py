"""What a process could not send before a reset, for the environment's next one."""

import json
import time
from pathlib import Path

import pytest
from truemem.outputs.unsent import MOST_UNSENT_BYTES, UnsentPeriod, leave, take

from faults import receivers
from faults.receivers import Collector, Connection, points
from tests.outputs.test_lambda import MIB, environment

PERIODS = [UnsentPeriod('{"resource":{"ü":1}}', 2), UnsentPeriod("{}", 1)]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "left")


def test_the_next_process_takes_them_once(path: str) -> None:
    assert leave(path, [UnsentPeriod("{}", 9)])
    assert leave(path, PERIODS)
    assert take(path) == PERIODS
    assert take(path) == []


def test_too_much_is_not_left(path: str) -> None:
    assert not leave(path, [UnsentPeriod(json.dumps("x" * MOST_UNSENT_BYTES), 1)])
    assert take(path) == []


def test_what_cannot_be_written_is_not_left(tmp_path: Path) -> None:
    assert not leave(str(tmp_path / "no folder" / "left"), PERIODS)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1 {}",
        b"1 {\n",
        b"x {}\n",
        b"1 []\n",
        b"1 {}\n{}\n",
        b"1 {} {}\n",
        b"1 \xff\n",
        b"1 " + b"[" * 9000 + b"\n",
    ],
)
def test_what_another_program_wrote_is_not_taken(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    Path(path).chmod(0o600)
    assert take(path) == []
    assert not Path(path).exists()


def test_no_link_and_no_file_of_others_is_read(path: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert leave(str(other), PERIODS)
    Path(path).symlink_to(other)
    assert take(path) == []
    other.chmod(0o644)
    assert take(str(other)) == []


def test_a_reset_environment_sends_what_was_refused_before() -> None:
    """The function's death is among it. A collector that ends sooner than the sidecar refuses just that."""
    again = receivers.answers(receivers.status(503))
    is_back = False

    def behaviour(collector: Collector, connection: Connection, body: bytes) -> bool:
        return (receivers.takes if is_back else again)(collector, connection, body)

    with Collector(behaviour) as collector, environment("emf,otlp", collector.start().variables) as made:
        made.invoke()
        made.attempt("crash", mib=5, ms=200)
        made.invoke()  # by the next process: the first is over
        is_back = True
        time.sleep(1.1)  # the period of `variables`
        made.invoke()
        records = made.told()
    assert collector.invocations == len(records) == 4
    assert "dropped" not in made.log()
    peaks = [point["sum"] for request in collector.taken for point in points(request, "faas.mem_usage")]
    assert sum(peaks) == sum(round(record.PeakRSS * MIB) for record in records)
