"""The page of a rebalancing: each asset in its band, foreign text as text, nothing loaded."""

from pathlib import Path
from typing import Any

from treasury.reports.round_page import write_page

LINE: dict[str, Any] = {
    "asset": "BTC",
    "before": "1",
    "incoming": "0",
    "outgoing": "0",
    "need": "0.1",
    "minimum": "0.2",
    "target": "0.4",
    "maximum": "0.9",
    "trade": "SELL 0.5",
    "after": "0.5",
    "why": "above its band & sold",
    "obligations": [{"amount": "0.1", "what": "run <script>payroll</script>"}],
}


def page(folder: Path, *lines: dict[str, Any]) -> str:
    decided = {"assets": [*lines], "cost": "1.25", "notes": ["<b>two codes</b>"]}
    return write_page(folder / "plan.html", "rebalance-2026-11-23", decided).read_text()


def test_an_asset_is_drawn_in_its_band_before_and_after(tmp_path: Path) -> None:
    text = page(tmp_path, LINE)
    assert text.count("<circle") == 2
    assert 'x="50.0" y="4" width="140.0"' in text  # 0.2 to 0.9 of 0 to 0.9
    assert '<circle cx="190.0"' in text
    assert '<circle cx="90.0"' in text
    assert "Cost against the middle of the rates: 1.25" in text


def test_an_asset_without_a_band_or_balance_is_listed_without_a_drawing(tmp_path: Path) -> None:
    text = page(tmp_path, {**LINE, "maximum": None}, {**LINE, "before": None, "after": None})
    assert text.count("<tr>") == 3
    assert "<circle" not in text


def test_foreign_text_is_never_markup_and_nothing_is_loaded(tmp_path: Path) -> None:
    text = page(tmp_path, LINE)
    assert "run &lt;script&gt;payroll" in text
    assert "&lt;b&gt;two codes" in text
    assert "above its band &amp; sold" in text
    assert "default-src 'none'" in text
    assert "<script" not in text
    assert "nothing" in page(tmp_path, {**LINE, "obligations": []})
