"""docs/page.png: five environments that were really run, under the local Lambda, with the sidecar attached.

`python -m tests.page.example [FOLDER]` runs them (two minutes), and leaves log, page and pictures in FOLDER if one is
given. A log that is there is drawn again.
"""

import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from truemem_workbench import page
from truemem_workbench.printed.line import read

from testing.browser import Browser, chromium
from testing.environment import SOURCE, Environment
from tests.attach.captured import LATE

PICTURE = Path(__file__).parents[2] / "docs" / "page.png"
INVOCATIONS = 240
WIDTH = 1200

Event = Mapping[str, Any]


def spike() -> Iterator[Event]:
    """One large request, long ago."""
    for number in range(INVOCATIONS):
        yield {"mib": 380 if number == 40 else 4}


def leak() -> Iterator[Event]:
    """Every other request leaves a MiB."""
    for number in range(INVOCATIONS):
        yield {"mib": 1, "keep": number % 2 == 0}


def cache() -> Iterator[Event]:
    """It fills, and is full."""
    for number in range(INVOCATIONS):
        yield {"mib": 3, "keep": number < 50}


def batches() -> Iterator[Event]:
    """Requests of all sizes, one too large."""
    chance = random.Random(7)
    for number in range(INVOCATIONS):
        yield {"mib": 600 if number == 150 else int(chance.paretovariate(1.3) * 12) % 260}


def steady() -> Iterator[Event]:
    """All alike."""
    for _ in range(INVOCATIONS):
        yield {"mib": 12}


RUNS = {"thumbnails": spike, "sessions": leak, "prices": cache, "imports": batches, "login": steady}


def log() -> Iterator[str]:
    """What the sidecar prints, environment after environment."""
    for name, events in RUNS.items():
        exact = {"AWS_LAMBDA_EXEC_WRAPPER": str(SOURCE.with_name("exact"))}
        with Environment(LATE, memory_mib=512, name=name, environment=exact) as environment:
            for event in events():
                environment.attempt(**event)
            environment.local.stop()
            yield from environment.local.extension_stdout(environment.name)
        print(f"{name}: done", flush=True)


def take(source: Path, path: Path, *, card: int | None = None, dark: bool = False) -> None:
    """A picture of the page: of all environments, or of one and what is first worth a look in it."""
    program, variables = chromium()
    with Browser(program, variables) as browser:
        browser.open(source, width=WIDTH, height=480, dark=dark, scale=1.5)
        if card is not None:
            browser.js(f"location.hash = '#{card}'")
            browser.until("document.querySelector('.detail')")
            browser.js("document.querySelector('.noted button')?.click()")
            browser.js("[...document.querySelectorAll('.tools button')].find(each => each.innerText === 'all').click()")
        browser.picture(path)


def stack(pictures: Sequence[Path], path: Path) -> None:
    """One above the other, in 256 colours: a third of the bytes."""
    opened = [Image.open(each).convert("RGB") for each in pictures]
    both = Image.new("RGB", (opened[0].width, sum(each.height for each in opened)))
    top = 0
    for each in opened:
        both.paste(each, (0, top))
        top += each.height
    both.quantize(256, kmeans=3, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    """Make it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(name)
        folder.mkdir(exist_ok=True)
        if not (folder / "lines.log").is_file():
            (folder / "lines.log").write_text("\n".join(log()) + "\n")
        environments = page.gather(read([folder / "lines.log"]))
        page.write(environments, folder / "page.html")
        page.draw(environments, folder / "page.png")
        take(folder / "page.html", folder / "overview.png")
        for environment in range(1, len(environments) + 1):
            take(folder / "page.html", folder / f"{environment}.png", card=environment, dark=environment % 2 == 1)
        stack([folder / "overview.png", folder / "1.png"], PICTURE)


if __name__ == "__main__":
    main()
