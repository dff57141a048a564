"""What a reader of the page sees, in a real browser."""

from itertools import chain
from typing import Any

import pytest
from truemem import VERSION
from truemem_workbench.support import docs_link

from testing.browser import Browser
from testing.invented_lines import curve, leak, line, noisy, recorded, request_id, spiked
from tests.page.conftest import Show

STREAM = "2026/11/21/[$LATEST]"
LEFT, RIGHT = 52, 26
"""Of the chart's curves, pixels from its edges."""


def chart_x(browser: Browser, row: int, of: int) -> float:
    """Where an invocation is, in the window, when all of them are shown."""
    left, _, width, _ = browser.place(".chart")
    return left + LEFT + (row + 0.5) / of * (width - LEFT - RIGHT)


def hover(browser: Browser, row: int, of: int) -> str:
    _, top, _, height = browser.place(".chart")
    browser.mouse("mouseMoved", chart_x(browser, row, of), top + height / 2)
    return browser.text(".tip")


def highest_pixel(browser: Browser, canvas: str, colour: str) -> float:
    """How far up the canvas a curve's colour is found: 0 is the bottom, 1 the top; -1, nowhere."""
    found: float = browser.js(f"""(() => {{
        const canvas = document.querySelector("{canvas}");
        const paint = document.createElement("canvas").getContext("2d");
        paint.fillStyle = colours()("{colour}");
        paint.fillRect(0, 0, 1, 1);
        const [r, g, b] = paint.getImageData(0, 0, 1, 1).data;
        const {{ data }} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        for (let i = 0; i < data.length; i += 4) {{
            const near = Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 40;
            if (near && data[i + 3] > 90) return 1 - Math.floor(i / 4 / canvas.width) / canvas.height;
        }}
        return -1;
    }})()""")
    return found


def height_of(mib: float, under: float) -> float:
    """Where a value is in the chart as `highest_pixel` counts, under a limit at the top."""
    height = 499
    return (24 + mib / under / 1.06 * (height - 24 - 26)) / height


def three() -> chain[str]:
    return chain(
        curve(spiked(60, at=20), STREAM + "0c6fbfb2f185"), leak(300, STREAM + "5d9e1c77a0b1"), curve(noisy(40), "third")
    )


def test_environment_that_grows_is_the_first_card(show: Show) -> None:
    browser = show(three())
    assert browser.text("#span").startswith("3 environments · 400 invocations · 2026-11-21")
    cards = browser.js("[...document.querySelectorAll('.card')].map(card => card.innerText)")
    assert len(cards) == 3
    assert "5d9e1c77" in cards[0]
    assert "\nleak\n" in cards[0]
    assert any("0c6fbfb2" in card and "peak\n400" in card for card in cards)


def test_a_card_opens_its_environment_and_escape_closes_it(show: Show) -> None:
    browser = show(three())
    browser.click(".card")
    browser.until("document.querySelector('.detail')")
    assert STREAM + "5d9e1c77a0b1" in browser.text("h2")
    assert browser.text(".verdict").startswith("leakLeak with ")
    assert "truemem docs patterns#" in browser.text(".verdict")
    browser.click(".steps button:last-child")
    browser.until("!document.querySelector('h2').innerText.includes('5d9e1c77')")
    browser.key("Escape")
    browser.until("document.querySelectorAll('.card').length === 3")


def test_a_finding_links_to_the_site_of_the_build(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_link, "home", lambda: "https://docs.example/")
    browser = show(leak(300, STREAM + "5d9e1c77a0b1"))
    link = browser.js("document.querySelector('.verdict a').href")
    assert link.startswith(f"https://docs.example/{VERSION}/docs/patterns.html#")
    assert browser.text(".verdict a").startswith("truemem docs patterns#")


def test_figures_are_told_at_the_pointer_and_the_story_above(show: Show) -> None:
    browser = show(curve(spiked(60, at=20)))
    told = hover(browser, 20, of=60)
    assert "invocation 21" in told
    assert request_id(20) in told
    assert "peak\t400 MiB" in told
    assert "current\t90.0 MiB" in told
    assert "Max Memory Used\t412 MiB" in told
    assert "2026-11-21 19:18:07.352 UTC" in told
    assert browser.text(".story") == (
        "The mark: 412 MiB, set by invocation 21. None of the 39 invocations since then needed more than 103 MiB."
    )


def test_the_story_of_a_leak_is_no_all_clear(show: Show) -> None:
    spike: dict[str, Any] = {"PeakRSS": 300.0, "MaxMemoryUsed": 300.0}
    browser = show(line(row, CurrentRSS=80 + row / 2, **(spike if row == 40 else {})) for row in range(300))
    assert browser.text(".verdict").startswith("leak")
    assert "none" not in browser.text(".story").lower()
    assert "Below it, current has grown since then: from 100 to 230 MiB." in browser.text(".story")


def test_what_went_wrong_is_marked_and_listed(show: Show) -> None:
    died = {"status": "failure", "errorType": "Runtime.OutOfMemory", "OutOfMemory": 1, "PeakRSS": 500.0}
    odd: dict[int, dict[str, Any]] = {
        5: {"raced": True, "peakLower": 80.0, "peakUpper": 180.0},
        20: died,
        21: {"suppressedInit": True},
        30: {"status": "timeout", "errorType": "Sandbox.Timedout"},
    }
    odd[12] = {"raced": True, "peakLower": 80.0, "peakUpper": None}
    browser = show(line(row, **odd.get(row, {})) for row in range(40))
    legend = browser.text(".legend")
    for mark in ("out of memory 1", "error or timeout 1", "reset 1", "cold start 1", "raced: bounds only 2"):
        assert mark in legend
    for colour in ("outOfMemory", "failed", "reset", "coldStart", "raced"):
        assert highest_pixel(browser, ".chart canvas", colour) > 0.95, colour
    table = browser.text(".noted")
    assert "failure, Runtime.OutOfMemory" in table
    assert request_id(20) in table
    assert "peak\t100 MiB (80.0 to 180)" in hover(browser, 5, of=40)
    assert "raced" in browser.text(".tip")
    assert "peak\t100 MiB (80.0 or more)" in hover(browser, 12, of=40)


def test_drag_and_keys_zoom(show: Show) -> None:
    browser = show(curve(noisy(400)))
    _, top, _, height = browser.place(".chart")
    browser.drag(chart_x(browser, 100, 400), chart_x(browser, 200, 400), top + height / 2)
    shown = browser.text(".range")
    assert shown.endswith(" of 400 invocations")
    assert 95 <= int(shown.split()[0]) <= 105
    browser.js("document.querySelector('.chart').focus()")
    browser.key("+")
    assert 45 <= int(browser.text(".range").split()[0]) <= 55
    browser.key("0")
    assert browser.text(".range") == "400 invocations"
    browser.key("End")
    assert "Invocation 400, " in str(browser.js("document.getElementById('readout').textContent"))
    assert request_id(399) in browser.text(".tip")


def test_a_request_id_is_found(show: Show) -> None:
    browser = show(three())
    browser.js("document.querySelector('input[type=search]').focus()")
    browser.do("Input.insertText", text=request_id(17, "third")[:13])
    browser.do("Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r")
    browser.until("document.querySelector('.tip') && !document.querySelector('.tip').hidden")
    assert "invocation 18" in browser.text(".tip")
    assert "third" in browser.text("h2")


def test_a_hundred_thousand_invocations_and_no_spike_is_lost(show: Show) -> None:
    peaks = spiked(100_000, at=10_000, peak=300)  # the mark is there before
    peaks[70_123] = 290
    browser = show(recorded(peaks))
    assert browser.text("#span").startswith("1 environment · 100,000 invocations")
    assert highest_pixel(browser, ".chart canvas", "peak") == pytest.approx(height_of(300, under=512), abs=0.02)
    # of the hundred at this pixel, the one that is meant
    assert "invocation 70,124" in hover(browser, 70_123, of=100_000)
    assert request_id(70_123) in browser.text(".tip")

    _, top, _, height = browser.place(".chart")
    browser.drag(chart_x(browser, 60_000, 100_000), chart_x(browser, 80_000, 100_000), top + height / 2)
    assert browser.text(".range").endswith(" of 100,000 invocations")
    assert highest_pixel(browser, ".chart canvas", "peak") == pytest.approx(height_of(290, under=512), abs=0.02)
    assert "70,124" in browser.text(".noted")


def test_dark_where_the_system_is_and_light_on_paper(show: Show, started: Browser) -> None:
    show(curve(noisy(30)))
    paper = "getComputedStyle(document.body).backgroundColor"
    assert started.js(paper) == "rgb(255, 255, 255)"
    started.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert started.js(paper) == "rgb(20, 22, 27)"
    assert started.printed().startswith(b"%PDF")
    assert started.js(paper) == "rgb(20, 22, 27)"
    for shown in ("rgb(255, 255, 255)", "rgb(20, 22, 27)"):  # chosen light, chosen dark
        started.click("#theme")
        assert started.js(paper) == shown


def test_hostile_names_are_text(show: Show) -> None:
    nasty = "</script><script>document.title='had'</script>{{columns}}<img src=x onerror=alert(1)>"
    members = {"FunctionName": nasty, "requestId": nasty, "status": nasty, "functionVersion": nasty}
    browser = show(chain((line(row, nasty, **members) for row in range(3)), curve(noisy(5), "other")))
    assert nasty in str(browser.js("[...document.querySelectorAll('.card b')].map(each => each.textContent).join(' ')"))
    browser.js("[...document.querySelectorAll('.card')].find(card => card.innerText.includes('<img')).click()")
    browser.until("document.querySelector('.detail')")
    assert nasty in browser.text("h2")
    assert browser.js("document.title") != "had"
    assert browser.js("document.images.length") == 0


def test_the_heap_is_drawn_where_the_lines_have_it(show: Show) -> None:
    browser = show(line(row, heap={"inUse": 40.0, "held": 20.0 + row, "mapped": 5.0}) for row in range(9))
    assert "heap: held\nheap: in use" in browser.text(".legend")
    assert "heap: held\t27.0 MiB\nheap: in use\t45.0 MiB" in hover(browser, 7, of=9)
    assert highest_pixel(browser, ".chart canvas", "inUse") > 0
    browser.click(".legend button:nth-child(5)")  # off
    assert highest_pixel(browser, ".chart canvas", "inUse") == -1


def test_what_is_missing_is_a_gap(show: Show) -> None:
    bare: dict[str, Any] = {
        "CurrentRSS": None,
        "MaxMemoryUsed": None,
        "peakLower": None,
        "peakUpper": None,
        "memoryLimit": None,
    }
    odd: dict[str, Any] = {"_aws": {}, "holders": None, "requestId": "no-uuid", "durationMs": None}
    browser = show(line(row, PeakRSS=100.0 if row % 2 else None, **bare, **odd) for row in range(6))
    assert "peak\t\N{EN DASH}" in hover(browser, 2, of=6)
    assert "peak\t100 MiB" in hover(browser, 3, of=6)
    assert "no-uuid" in browser.text(".tip")
    assert highest_pixel(browser, ".chart canvas", "peak") > 0.5  # single points between gaps are dots
