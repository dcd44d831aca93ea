"""The page: complete in itself, escaped, exact, and the same bytes for the same inputs."""

import re
import stat
import subprocess
import sys
from collections.abc import Mapping
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.reports.builders import (
    HOSTILE,
    LONG,
    MEANINGS,
    a_break,
    empty_machine,
    listed,
    one_order_machine,
    order_frame,
    rich_machine,
    shuffled,
)
from treasury.reports import page as written
from treasury.reports.charts import draw_ages, draw_charts, draw_days, draw_fees, draw_rates
from treasury.reports.figures import AGES, Grid, Spread
from treasury.reports.markup import amount
from treasury.reports.page import render_page, write_page

VOID = {"meta", "input", "wbr", "br"}


class Parts(HTMLParser):
    """The elements of a page with their attributes, its ids and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


def rich_page() -> str:
    return render_page(rich_machine(), listed(order_frame(25, 25)), MEANINGS)


def test_the_page_is_well_formed_and_its_ids_are_unique() -> None:
    parts = Parts(rich_page())
    assert len(parts.ids) == len(set(parts.ids))
    anchors = {(attrs["href"] or "")[1:] for tag, attrs in parts.elements if tag == "a"}
    assert anchors <= set(parts.ids)


def test_nothing_is_loaded_and_nothing_foreign_is_markup() -> None:
    page = rich_page()
    parts = Parts(page)
    assert not {tag for tag, _ in parts.elements} & {"img", "link", "iframe", "object", "base", "image", "form"}
    assert [tag for tag, _ in parts.elements].count("script") == 1
    for tag, attrs in parts.elements:
        assert not [name for name in attrs if name.startswith("on") or name in ("src", "srcset", "style")], (tag, attrs)
        for name in ("href", "xlink:href"):
            assert (attrs.get(name) or "#").startswith("#"), (tag, attrs)
    assert "url(" not in page.replace("url(#", "")
    assert "@import" not in page
    policy = next(attrs["content"] for tag, attrs in parts.elements if "http-equiv" in attrs)
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_hostile_text_is_shown_as_text() -> None:
    page = rich_page()
    text = Parts(page).text
    for each in HOSTILE:
        visible = re.sub("[\x00-\x08\x1b\ud800]", "\ufffd", each).replace("\r", "\n")
        assert visible in text.replace("\r", "\n")
    assert "{{ 7*7 }}" in text
    assert "\x00" not in page
    page.encode()


def test_amounts_are_exact_when_their_text_is_taken() -> None:
    """An amount with more digits than its asset has is cut and marked, and whole when somebody points at it."""
    page = Parts(rich_page())
    for each in ("98765432109876.55", "482100.55", "1250000"):
        assert each in page.text
    assert f"{LONG[:-12]}…" in page.text
    assert ("data", {"title": LONG}) in page.elements


@pytest.mark.parametrize("text", ["0", "-0.50", "1234567.891", LONG, "999", "1000", "0.000000000000000001"])
def test_an_amounts_digits_are_only_set_apart(text: str) -> None:
    assert Parts(str(amount(text))).text == text


def test_what_is_not_an_amount_is_escaped() -> None:
    assert amount("<b>1</b>") == "&lt;b&gt;1&lt;/b&gt;"
    assert amount(None) == ""


@pytest.mark.parametrize(
    ("text", "currency", "shown", "whole"),
    [
        ("1005.0251264875", "USDT", "1005.025126…", "1005.0251264875"),
        ("-0.0000001", "USDT_TRC20", "-0.000000…", "-0.0000001"),
        ("1005.0250000000", "USDT", "1005.025000", None),
        ("1005.10", "EUR", "1005.10", None),
        ("1005.105", "EUR", "1005.10…", "1005.105"),
        ("3060.4", "JPY", "3060…", "3060.4"),
        ("0.123456789012345678", "ETH", "0.123456789012345678", None),
        ("1.23456789012", "XYZ", "1.23456789012", None),
    ],
)
def test_an_amount_is_shown_with_the_decimals_of_its_asset(
    text: str, currency: str, shown: str, whole: str | None
) -> None:
    markup = str(amount(text, currency))
    assert Parts(markup).text == shown
    assert re.findall('title="(.*?)"', markup) == ([] if whole is None else [whole])


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (rich_machine(), "65 breaks to clear"),
        (rich_machine("incomplete"), "Incomplete: this report cannot be signed yet"),
        (rich_machine("warnings"), "Nothing is broken; 65 items to look at"),
        (one_order_machine(), "Nothing is wrong; 1 order still on the way"),
        (one_order_machine() | {"counts": {"amount_mismatch": 1}}, "Nothing is wrong; money is still on the way"),
        (empty_machine(), "Nothing to reconcile: the ledger holds no orders here"),
        (empty_machine(counts={"matched": 1200}), "Both sides agree on 1,200 orders"),
    ],
)
def test_the_verdict_is_a_headline_in_words(machine: Mapping[str, Any], said: str) -> None:
    page = render_page(machine, listed(order_frame(0, 0)), MEANINGS)
    assert f"<h1>{said}</h1>" in page
    Parts(page)


def test_it_says_what_to_do_first_and_what_the_sums_leave_open() -> None:
    machine = rich_machine("incomplete")
    text = Parts(render_page(machine, listed(order_frame(1, 1)), MEANINGS)).text
    first = text[text.index("Begin with") : text.index("Statement of orders")]
    assert machine["breaks"][0]["next_action"] in first
    assert "The sums of IDR leave 0.01 unexplained." in first
    assert "Balance of USDT: unexplained outflow of -300.000000000000000001." in first


def test_every_break_is_there_with_its_evidence_and_accepted_and_resolved_apart() -> None:
    machine = rich_machine()
    page = render_page(machine, listed(order_frame(1, 1)), MEANINGS)
    assert {each["id"] for each in machine["breaks"]} <= set(Parts(page).ids)
    start, accepted, resolved = (page.index(f'<section id="{name}">') for name in ("breaks", "accepted", "resolved"))
    for each in machine["breaks"]:
        at = page.index(f'id="{each["id"]}"')
        expected = "resolved" if each["lifecycle"] == "resolved" else "accepted" if each["accepted"] else "breaks"
        found = "resolved" if at > resolved else "accepted" if at > accepted else "breaks" if at > start else "?"
        assert found == expected
    assert "Bank holiday; the bank confirmed by phone" in page


def test_long_lists_are_cut_and_say_where_the_rest_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "MAX_BREAKS", 5)
    monkeypatch.setattr(written, "MAX_ORDERS", 4)
    machine = empty_machine(verdict="breaks", breaks=[a_break(number) for number in range(12)])
    parts = Parts(render_page(machine, listed(order_frame(10, 3)), MEANINGS))
    assert [attrs.get("class") for tag, attrs in parts.elements if tag == "details"].count("break") == 5
    assert "The first 5 are here. 7 more are in reconciliation.xlsx and reconciliation.json." in parts.text
    assert "The 4 oldest are here. 6 more are in orders.csv." in parts.text


def test_the_same_inputs_give_the_same_bytes_whatever_the_order_of_rows(tmp_path: Path) -> None:
    machine, orders = rich_machine(), order_frame(40, 60)
    for name, frame in (("a", orders), ("b", orders), ("c", shuffled(orders))):
        write_page(tmp_path / name / "reconciliation.html", machine, listed(frame), MEANINGS)
    files = [(tmp_path / name / "reconciliation.html").read_bytes() for name in "abc"]
    assert files[0] == files[1] == files[2]
    assert stat.S_IMODE((tmp_path / "a" / "reconciliation.html").stat().st_mode) == 0o600


def test_another_process_draws_the_same_page(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.reports.builders import *;"
        "from treasury.reports.page import write_page;"
        "write_page(Path(sys.argv[1]), rich_machine(), listed(order_frame(9, 9)), MEANINGS)"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "p.html")], cwd=root, check=True)
    assert (tmp_path / "p.html").read_bytes() == render_page(
        rich_machine(), listed(order_frame(9, 9)), MEANINGS
    ).encode()


def test_plots_take_names_of_any_letters_and_no_colour_of_their_own() -> None:
    machine = rich_machine()
    odd = ["名前 $x^2$", "</svg><script>", "a\x00b"]
    machine["fees"] = [{**machine["fees"][0], "currency": name} for name in odd]
    machine["rates"] = [{**machine["rates"][0], "pair": name} for name in odd]
    drawn = draw_charts(machine)
    assert list(drawn) == ["days", "ages", "fees", "rates"]
    assert "名前 $x^2$" in drawn["fees"]
    assert "&lt;/svg&gt;&lt;script&gt;" in drawn["fees"]
    for svg in drawn.values():
        assert svg.startswith("<svg ")
        assert not re.search(r"#[0-9a-fA-F]{6}\b", svg), "a colour that the page cannot turn dark"
        assert "style" not in svg


def test_what_is_drawn_defines_every_colour_in_light_and_dark() -> None:
    style = (Path(written.__file__).parent / "templates" / "reconciliation.css").read_text()
    light, _, dark = style.partition("prefers-color-scheme: dark")
    for name in set(re.findall(r"var\((--[a-z_0-9-]+)\)", style + "".join(draw_charts(rich_machine()).values()))):
        if name != "--tone":
            assert f"{name}:" in light, name
            assert f"{name}:" in dark, name


def test_bars_are_as_long_as_their_numbers() -> None:
    days = Grid(("2026-11-20", "2026-11-21"), ("settled", "failed"), ((30, 10), (0, 20)))
    drawn = draw_days(days)
    assert [bar.color for bar in drawn.bars] == ["settled", "failed", "failed"]
    unit = drawn.bars[0].height / 30
    assert [bar.height / unit for bar in drawn.bars] == pytest.approx([30, 10, 20], rel=0.01)
    settled, failed, _ = drawn.bars
    assert failed.y + failed.height == pytest.approx(settled.y, abs=0.02)  # one upon the other
    ages = draw_ages(Grid(("balance_gap", "partial"), tuple(AGES)[:2], ((4, 8), (2, 0))))
    widths = [bar.width for bar in ages.bars]
    assert [width / widths[0] for width in widths] == pytest.approx([1, 2, 0.5], rel=0.01)
    assert {"12", "2"} <= {label.text for label in ages.labels}
    fees = draw_fees([{"currency": "USDT", "bps": "10"}, {"currency": "IDR", "bps": "-5"}])
    assert fees.bars[0].width / fees.bars[1].width == pytest.approx(2, rel=0.01)
    assert fees.bars[1].x + fees.bars[1].width == pytest.approx(fees.bars[0].x, abs=0.02)  # left of zero
    rates = draw_rates([Spread("BTC-USDT", Decimal(-20), Decimal(40))])
    zero = next(line.x1 for line in rates.lines if line.dashed)
    low, high = (dot.x for dot in rates.dots)
    assert (high - zero) / (zero - low) == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("most", [1, 2, 3, 7, 12, 99, 1_000, 123_456])
def test_an_axis_has_a_few_whole_numbers(most: int) -> None:
    drawn = draw_days(Grid(("2026-11-20",), ("settled",), ((most,),)))
    said = [int(label.text.replace(",", "")) for label in drawn.labels if label.anchor == "end"]
    assert said[0] == 0
    assert 2 <= len(said) <= 5
    assert most / 2 < said[-1] <= most
    assert all(0 <= x <= 360 for x in (*(bar.x for bar in drawn.bars), *(label.x for label in drawn.labels)))
