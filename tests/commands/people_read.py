"""The figures of reports as people read them: on the page, in the workbook, in Markdown, as JSON; all have to agree."""

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any

import openpyxl

D = Decimal
Figures = dict[str, dict[str, Decimal]]
"""Currency -> name of a figure -> the figure."""

STATEMENT = {
    "Opening in flight": "opening_in_flight",
    "Sent": "sent",
    "Arrived": "arrived",
    "Fees, taken from it": "fees",
    "Failed and returned": "failed_and_returned",
    "Closing in flight": "closing_in_flight",
    "Residual": "residual",
    "Fees beside": "fees_beside",
    "Breaks, gross": "breaks_gross",
    "Breaks, net": "breaks_net",
}
BALANCE = {
    "Opening balance": "opening",
    "Closing balance": "closing",
    "Change": "change",
    "Explained, at least": "explained_low",
    "Explained, at most": "explained_high",
    "Unexplained": "unexplained",
    "Accepted by a person": "adjusted",
}
"""The words for a figure on the page and in the workbook -> its name in the JSON and in Markdown."""


def night_figures(folder: Path) -> tuple[dict[str, Any], Figures, Figures]:
    """A night's report as JSON, its statement and its balance proof, once all its files say the same."""
    report: dict[str, Any] = json.loads((folder / "reconciliation.json").read_text())
    statement = _of_json(report["statement"], STATEMENT.values())
    balances = _of_json(report["balances"], BALANCE.values())
    page, book = _on_page(folder / "reconciliation.html"), _in_book(folder / "reconciliation.xlsx")
    for figures, names in ((statement, STATEMENT), (balances, BALANCE)):
        wanted = {
            (currency, title): line[name]
            for currency, line in figures.items()
            for title, name in names.items()
            if name in line
        }
        assert wanted.items() <= page.items(), f"the page of {folder} says otherwise"
        assert wanted.items() <= book.items(), f"the workbook of {folder} says otherwise"
    assert len(page) == len(book) == sum(map(len, (*statement.values(), *balances.values())))
    for title, figures in (("Statement of orders", statement), ("Balances", balances)):
        written = _in_markdown((folder / "reconciliation.md").read_text(), title)
        assert set(written) == set(figures), folder
        assert all(line.items() <= figures[currency].items() for currency, line in written.items()), folder
    return report, statement, balances


def _of_json(lines: Iterable[Mapping[str, str]], names: Iterable[str]) -> Figures:
    known = list(names)
    return {line["currency"]: {name: D(line[name]) for name in known} for line in lines}


def _text(markup: str) -> str:
    return re.sub(r"<[^>]*>", "", markup).strip()


def _on_page(file: Path) -> dict[tuple[str, str], Decimal]:
    found = {}
    for table in re.findall(r'<table class="[^"]*lines"><caption>(.*?)</table>', file.read_text(), re.DOTALL):
        currency = _text(table.split("</caption>")[0]).split()[0]
        for title, amount in re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', table):
            found[currency, _text(title)] = D(_text(amount))
    return found


def _in_book(file: Path) -> dict[tuple[str, str], Decimal]:
    """The sheet `Statement`; each number is the exact text beside it, as far as a spreadsheet can hold it."""
    found = {}
    book = openpyxl.load_workbook(file, read_only=True)
    for currency, title, amount, exact, *_ in book["Statement"].iter_rows(values_only=True):
        if isinstance(amount, int | float):
            assert float(str(exact)) == amount, (file, currency, title)
            found[str(currency), str(title)] = D(str(exact))
    book.close()
    return found


def _in_markdown(text: str, title: str) -> Figures:
    if f"## {title}\n" not in text:
        return {}
    lines = text.split(f"## {title}\n")[1].strip().split("\n\n")[0].splitlines()
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    names = [name.replace(" ", "_") for name in head]
    return {
        row[0]: {name: D(cell) for name, cell in zip(names, row, strict=True) if re.fullmatch(r"-?[0-9.]+", cell)}
        for row in rows
    }


def result_sums(folder: Path) -> dict[tuple[str, str], tuple[int, Decimal]]:
    """Outcome and currency -> rows and sum, once `results.csv`, both sheets of `results.xlsx` and `run.json` agree."""
    with (folder / "results.csv").open(newline="", encoding="utf-8") as opened:
        sums = _summed(csv.DictReader(opened))
    book = openpyxl.load_workbook(folder / "results.xlsx", read_only=True)
    assert _summed(_rows(book["Results"])) == sums, folder
    totals = {
        (str(row["outcome"]), str(row["currency"])): (int(row["rows"]), D(str(row["amount"] or 0)))
        for row in _rows(book["Totals"])
    }
    assert totals == sums, folder
    book.close()
    said = json.loads((folder / "run.json").read_text())["sums"]
    assert {(outcome, currency): D(total) for currency, line in said.items() for outcome, total in line.items()} == {
        key: total for key, (_, total) in sums.items() if total
    }, folder
    return sums


def _rows(sheet: Any) -> Iterator[dict[str, Any]]:
    head, *rows = sheet.iter_rows(values_only=True)
    return (dict(zip_longest(head, row)) for row in rows)


def _summed(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[int, Decimal]]:
    counts: dict[tuple[str, str], int] = defaultdict(int)
    sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for row in rows:
        key = (str(row["outcome"]), str(row["currency"]))
        counts[key] += 1
        sums[key] += D(str(row["amount"] or 0))
    return {key: (counts[key], sums[key]) for key in counts}


def plan_sums(folder: Path, title: str) -> dict[str, Decimal]:
    """The sums of a plan's page under this title, once those of its workbook are the same."""
    page = re.findall(rf'<th scope="row">{title}</th><td[^>]*>([0-9.]+) (\w+)', (folder / "plan.html").read_text())
    book = openpyxl.load_workbook(folder / "plan.xlsx", read_only=True)
    said = [str(row[1]).split()[:2] for row in book["Plan"].iter_rows(values_only=True) if row[0] == title]
    book.close()
    assert said == [list(each) for each in page], folder
    return {currency: D(amount) for amount, currency in page}


def printed_sums(out: str, title: str) -> dict[str, Decimal]:
    """The sums of a plan that begin with these words: currency -> sum."""
    found = re.findall(rf"^  {re.escape(title)}:? +([0-9.]+) ([A-Z0-9_]+)(?=[\s:,]|$)", out, re.MULTILINE)
    return {currency: D(amount) for amount, currency in found}


def shown_sums(out: str) -> dict[str, Decimal]:
    """Rows that `treasury show KEY` lists, added up by currency; a single row is shown line by line."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    single = re.findall(r"^currency: (\w+)\namount: (\S+)", out, re.MULTILINE)
    rows = re.findall(r"^\S+  tf-\w+  \w+  ([0-9.]+) (\w+)", out, re.MULTILINE)
    for amount, currency in [*rows, *((amount, currency) for currency, amount in single)]:
        sums[currency] += D(amount)
    return dict(sums)


def month_figures(folder: Path) -> Figures:
    """The month of each account, once the page, the workbook, the JSON and the sums of `entries.csv` agree."""
    lines = json.loads((folder / "month.json").read_text())["accounts"]
    found = {line["currency"]: {name: D(line[name]) for name in line if name != "currency"} for line in lines}
    book = openpyxl.load_workbook(folder / "month.xlsx", read_only=True)
    names = [name for name in lines[0] if name != "currency"]
    for row in _rows(book["Accounts"]):
        assert {name: float(row[name]) for name in names} == {
            name: float(amount) for name, amount in found[row["currency"]].items()
        }, folder
    book.close()
    page = re.findall(r'<tr><th scope="row">(\w+)</th>(.*?)</tr>', (folder / "month.html").read_text())
    drawn = {
        currency: dict(zip(names, (D(_text(cell)) for cell in cells.split("</td>")[:-1]), strict=True))
        for currency, cells in page
    }
    assert drawn == found, folder
    sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    with (folder / "entries.csv").open(newline="", encoding="utf-8") as opened:
        for row in csv.DictReader(opened):
            sums[row["currency"], row["kind"]] += D(row["amount"])
    for (currency, kind), total in sums.items():
        assert found[currency][kind] == total, (folder, currency, kind)
    return found
