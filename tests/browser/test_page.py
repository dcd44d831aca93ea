"""The page in a real browser: drawn, filtered, unfolded, quiet, on a phone and on a desk, by day and by night."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import DESKTOP, PHONE, PROGRAM, Tab, browser
from tests.reports.builders import (
    LONG,
    MEANINGS,
    a_break,
    empty_machine,
    listed,
    one_order_machine,
    order_frame,
    rich_machine,
)
from treasury.reports.figures import LINES
from treasury.reports.page import write_page

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed (apt-get install chromium)")

SHOWN = "[...document.querySelectorAll('details.break')].filter((node) => node.offsetHeight > 0)"


@pytest.fixture(scope="session")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all pages; set `SCREENSHOTS=folder` to keep pictures of them."""
    folder = tmp_path_factory.mktemp("pages")
    write_page(folder / "rich.html", rich_machine(), listed(order_frame(250, 20)), MEANINGS)
    write_page(folder / "incomplete.html", rich_machine("incomplete"), listed(order_frame(3, 20)), MEANINGS)
    write_page(folder / "empty.html", empty_machine(), listed(order_frame(0, 0)), MEANINGS)
    write_page(folder / "one.html", one_order_machine(), listed(order_frame(1, 0)), MEANINGS)
    return folder


def change(name: str, value: str) -> str:
    """The script that changes a filter as a person does."""
    return (
        f"(() => {{ const box = document.getElementById('{name}'); box.value = {value!r};"
        "box.dispatchEvent(new Event(box.tagName === 'SELECT' ? 'change' : 'input', {bubbles: true})); })()"
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("name", ["rich", "incomplete", "empty", "one"])
def test_it_fits_loads_nothing_else_and_complains_of_nothing(
    tab: Tab, pages: Path, name: str, size: tuple[int, int], dark: bool
) -> None:
    file = pages / f"{name}.html"
    tab.requests.clear()
    tab.complaints.clear()
    tab.open(file, size, dark=dark)
    tab.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert tab.run("innerWidth") == size[0]
    assert tab.run("document.documentElement.scrollWidth") <= size[0], "it has to be scrolled sideways"
    beyond = "[...document.querySelectorAll('main *')].filter((e) => !e.closest('.scroll, svg, .unseen')"
    assert tab.run(f"{beyond} && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML)") == []
    assert [address for address in tab.requests if address != "about:blank"] == [file.as_uri()]
    assert tab.complaints == []
    if folder := os.environ.get("SCREENSHOTS"):
        tab.open(file, size, dark=dark)
        tab.screenshot(
            Path(folder) / f"{name}-{'phone' if size == PHONE else 'desktop'}-{'dark' if dark else 'light'}.png"
        )


def test_an_amount_stays_on_one_line_on_a_phone(tab: Tab, pages: Path) -> None:
    """But for one of so many digits that it would be cut off."""
    tab.open(pages / "rich.html", PHONE)
    shown = "[...document.querySelectorAll('data')].filter((each) => !each.querySelector('wbr'))"
    assert len(tab.run(f"{shown}.map((each) => each.textContent)")) > 20
    assert tab.run(f"{shown}.filter((each) => each.getClientRects().length > 1).map((each) => each.textContent)") == []


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_the_plots_are_drawn(tab: Tab, pages: Path, size: tuple[int, int]) -> None:
    tab.open(pages / "rich.html", size)
    boxes = tab.run(
        "[...document.querySelectorAll('figure svg')].map((svg) => { const box = svg.getBoundingClientRect();"
        "return [box.width, box.height, svg.querySelectorAll('path').length, svg.querySelectorAll('text').length]; })"
    )
    assert len(boxes) == 4
    for width, height, paths, texts in boxes:
        assert width > 250
        assert height > 70
        assert paths > 3
        assert texts > 3


def test_bars_and_letters_follow_the_scheme(tab: Tab, pages: Path) -> None:
    found = []
    for dark in (False, True):
        tab.open(pages / "rich.html", dark=dark)
        look = "getComputedStyle(document.querySelector('#plot-{} svg {}')).fill"
        found.append((tab.run(look.format("fees", "path[fill^=var]")), tab.run(look.format("days", "text"))))
    assert found[0][0] == "rgb(58, 123, 200)"
    assert found[1][0] == "rgb(106, 169, 234)"
    assert found[0][1] != found[1][1]


CONTRAST = """(() => {
  const rgb = (text) => text.match(/[0-9.]+/g).slice(0, 4).map(Number);
  const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const shine = (color) => {
    const [r, g, b] = color.slice(0, 3).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let n = node; n; n = n.parentElement) {
      const c = rgb(getComputedStyle(n).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const node of document.querySelectorAll('body *:not(script):not(svg *):not(option)')) {
    if (!node.offsetHeight || ![...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [shine(rgb(getComputedStyle(node).color)), shine(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push([ratio.toFixed(2), node.className, node.textContent.slice(0, 30)]);
  }
  return poor;
})()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["rich", "incomplete", "empty", "one"])
def test_every_text_has_contrast(tab: Tab, pages: Path, name: str, dark: bool) -> None:
    tab.open(pages / f"{name}.html", dark=dark)
    tab.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert tab.run(CONTRAST) == []


def expected(**wanted: str) -> list[str]:
    return [each["id"] for each in rich_machine()["breaks"] if all((each[k] or "") == v for k, v in wanted.items())]


def shown(tab: Tab) -> list[Any]:
    found = tab.run(f"{SHOWN}.map((node) => node.id)")
    assert isinstance(found, list)
    return found


def test_filters_show_what_they_say(tab: Tab, pages: Path) -> None:
    tab.open(pages / "rich.html")
    everything = expected()
    assert sorted(shown(tab)) == sorted(everything)
    said = "document.getElementById('shown').textContent"
    assert tab.run(said).startswith(f"{len(everything)} of {len(everything)} ")
    tab.run(change("filter-class", "amount_mismatch"))
    assert sorted(shown(tab)) == sorted(expected(**{"class": "amount_mismatch"}))
    tab.run(change("filter-severity", "high"))
    assert shown(tab) == expected(**{"class": "amount_mismatch"}, severity="high")
    assert tab.run(said).startswith(f"1 of {len(everything)} ")
    tab.run(change("filter-class", "*") + ";" + change("filter-severity", "*"))
    for field, value in (("currency", "JPY"), ("currency", ""), ("lifecycle", "resolved"), ("severity", "low")):
        tab.run(change(f"filter-{field}", value))
        assert sorted(shown(tab)) == sorted(expected(**{field: value})), (field, value)
        tab.run("document.getElementById('clear').click()")
    assert sorted(shown(tab)) == sorted(everything)
    assert tab.run("[...document.querySelectorAll('.group')].every((group) => group.offsetHeight > 0)")


def test_the_search_finds_ids_and_evidence_and_hides_empty_groups(tab: Tab, pages: Path) -> None:
    tab.open(pages / "rich.html", PHONE)
    one = rich_machine()["breaks"][7]
    tab.run(change("search", one["request_id"][:20].upper()))
    assert shown(tab) == [one["id"]]
    assert tab.run("[...document.querySelectorAll('.group')].filter((group) => group.offsetHeight > 0).length") == 1
    tab.run(change("search", "onerror=alert"))
    assert len(shown(tab)) == 1
    tab.run(change("search", "no such words"))
    assert shown(tab) == []


def test_a_break_unfolds_to_its_evidence_and_next_action(tab: Tab, pages: Path) -> None:
    tab.open(pages / "rich.html")
    first = rich_machine()["breaks"][0]
    body = f"document.getElementById('{first['id']}').querySelector('.body')"
    assert tab.run(f"{body}.checkVisibility()") is False
    tab.run("document.querySelector('.start a').click()")
    tab.run("new Promise((done) => setTimeout(done, 100))")
    assert tab.run(f"{body}.checkVisibility()") is True
    text = tab.run(f"{body}.innerText")
    assert first["evidence"] in text
    assert first["next_action"] in text


def test_a_link_to_a_break_opens_it_though_it_is_filtered_away(tab: Tab, pages: Path) -> None:
    one = rich_machine()["breaks"][4]["id"]
    tab.open(pages / "rich.html", fragment=f"#{one}")
    assert tab.run(f"document.getElementById('{one}').open") is True
    tab.run(change("search", "no such words") + "; location.hash = '#breaks'")
    tab.run(f"new Promise((done) => {{ location.hash = '#{one}'; setTimeout(done, 100); }})")
    assert len(shown(tab)) == len(expected())


def test_an_amount_that_is_copied_is_exact_or_shows_that_there_is_more(tab: Tab, pages: Path) -> None:
    """An amount with more digits than its asset has is whole where somebody points at it."""
    tab.open(pages / "rich.html")
    copied = tab.run(
        "(() => { const found = [...document.querySelectorAll('#statement data')].map((node) => {"
        "getSelection().selectAllChildren(node); return getSelection().toString(); }); return found; })()"
    )
    titles = tab.run("[...document.querySelectorAll('#statement data')].map((node) => node.title)")
    statement = rich_machine()["statement"]
    assert LONG in titles
    whole = [title or text for title, text in zip(titles, copied, strict=True)]
    assert whole == [line[name] for line in statement for name in LINES]
    assert [text.endswith("…") for text in copied] == [bool(title) for title in titles]
    assert all(title.startswith(text.removesuffix("…")) for title, text in zip(titles, copied, strict=True) if title)


def test_paper_gets_every_break_unfolded_and_no_controls(tab: Tab, pages: Path, tmp_path: Path) -> None:
    tab.open(pages / "rich.html", dark=True)
    tab.run(change("filter-currency", "JPY"))
    tab.print(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").stat().st_size > 20_000
    assert tab.run(f"{SHOWN}.some((node) => node.open)") is False, "folded again afterwards"
    tab.ask("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    tab.run("dispatchEvent(new Event('beforeprint'))")
    assert tab.run("document.getElementById('filters').offsetHeight") == 0
    assert tab.run(f"{SHOWN}.every((node) => node.querySelector('.body').checkVisibility())") is True
    assert tab.run("getComputedStyle(document.body).color") == "rgb(27, 31, 36)", "ink is dark on paper"
    tab.ask("Emulation.setEmulatedMedia", media="", features=[])


def test_without_script_all_of_it_is_there(tab: Tab, pages: Path) -> None:
    tab.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.open(pages / "rich.html")
        assert tab.run("document.getElementById('filters').offsetHeight") == 0
        assert len(shown(tab)) == len(expected())
    finally:
        tab.ask("Emulation.setScriptExecutionDisabled", value=False)


def test_two_thousand_breaks_are_filtered_while_one_types(tab: Tab, pages: Path) -> None:
    machine = empty_machine(verdict="breaks", breaks=[a_break(number) for number in range(5_000)])
    write_page(pages / "many.html", machine, listed(order_frame(500, 0)), MEANINGS)
    tab.open(pages / "many.html", PHONE)
    assert len(shown(tab)) == 2_000
    assert "3,000 more are in" in tab.run("document.getElementById('breaks').innerText")
    took = tab.run(
        f"(() => {{ const t = performance.now(); {change('search', 'EMP-0001')}; return performance.now() - t; }})()"
    )
    assert took < 5_000, f"{took:.0f} ms"
    assert len(shown(tab)) == 10
