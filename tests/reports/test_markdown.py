"""Every figure of the Markdown page is the JSON's."""

from typing import Any

import pytest

from tests.reports.builders import rich_machine
from treasury.reports.figures import sort_breaks
from treasury.reports.plan import PlanPage, as_form
from treasury.reports.plan import as_markdown as plan_as_markdown
from treasury.reports.reconciliation import BALANCE_COLUMNS, STATEMENT_COLUMNS, as_markdown


def rows_under(page: str, heading: str) -> list[list[str]]:
    table = page.partition(f"## {heading}\n\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_statement_and_balances_are_those_of_the_json() -> None:
    machine = rich_machine()
    machine["counts"].pop("a_class_of_tomorrow")  # the page explains every class
    page = as_markdown(machine)
    parts: tuple[tuple[str, str, dict[str, str]], ...] = (
        ("Statement of orders", "statement", dict(STATEMENT_COLUMNS)),
        ("Balances", "balances", dict(BALANCE_COLUMNS)),
    )
    for heading, name, columns in parts:
        titles, _, *rows = rows_under(page, heading)
        expected: list[dict[str, Any]] = machine[name]
        assert titles == list(columns.values())
        assert rows == [[line[column] or "" for column in columns] for line in expected]
    for each in machine["breaks"][:50]:
        assert f"| {each['id']} | {each['class']} | {each['amount'] or ''}".rstrip() in page


def test_what_a_person_accepted_is_apart_from_what_is_to_look_at() -> None:
    """A night that ends well asks nobody to accept again what was accepted."""
    machine = rich_machine()
    machine["counts"].pop("a_class_of_tomorrow")
    breaks = sort_breaks(machine)
    page = as_markdown(machine)
    for words, found in (("to look at", breaks.open), ("accepted", breaks.accepted), ("resolved", breaks.resolved)):
        assert found
        _, _, *rows = rows_under(page, f"{len(found)} {words}")
        assert [row[0] for row in rows] == [each["id"] for each in found[:50]]
    [head, _, first, *_] = rows_under(page, f"{len(breaks.accepted)} accepted")
    said = breaks.accepted[0]["accepted"]
    assert head == ["break", "class", "amount", "accepted by", "why", "evidence"]
    assert (first[3], first[4]) == (said["by"], said["why"])
    calm = {**machine, "breaks": breaks.accepted}
    assert "to look at" not in as_markdown(calm)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<!-- x", r"\<!-- x"),
        ("~~100", r"\~\~100"),
        ("[ok](https://example.com)", r"\[ok\](https://example.com)"),
        ("**none** `x", r"\*\*none\*\* \`x"),
        ("a\\|b", r"a\\\|b"),
        ("_not_ __it__", r"\_not\_ \_\_it\_\_"),
        ("USDT_TRC20", "USDT_TRC20"),
    ],
)
def test_what_others_wrote_is_no_markup(text: str, shown: str) -> None:
    """A comment that begins in a `row_ref` would hide what follows it from whoever approves."""
    row = {"row_ref": text, "amount": "9000", "currency": "USDT_TRC20"}
    plan = PlanPage("Plan", 0, [("Payments", text)], [row], "run", text)
    machine = rich_machine()
    machine["counts"].pop("a_class_of_tomorrow")
    machine["breaks"] = [{**sort_breaks(machine).open[0], "evidence": text}]
    for page in (as_form(plan, text), plan_as_markdown(plan), as_markdown(machine)):
        assert shown in page
        assert text not in page.replace(shown, "")
