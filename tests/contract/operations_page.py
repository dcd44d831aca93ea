"""Writes the pages that follow from code: docs/operations.md, and a table of each of two more.

`python -m tests.contract.operations_page` writes them; a test holds the committed pages to what this makes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tests.contract.work import WORK
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.operation import Conditional, Operation, members, wire_name
from treasury.provider.service_rules import ServiceRules
from treasury.reconciliation.classes import CLASSES
from treasury.settings import service_variable

DOCS = Path(__file__).resolve().parents[2] / "docs"

HEAD = """# Operations

Every operation of the interface: {count} in all, made from the catalogue by `python tests/contract/operations_page.py`.
Each is a task (`from tasks.operations import {example}`) and a command (`treasury call {example} --json ...`).

What `reads` may be repeated at will. What `creates` brings something into being, and moves no balance. What `moves
money` goes through the ledger, at most once for its reference. The reference is the field that names a request for
ever; *asked with* is the operation that tells what became of it.

| name | path | effect | reference | asked with | source |
|---|---|---|---|---|---|
"""


WORK_HEAD = """
## Operations as work

Which command and flow leads to each documented operation, from which sheet (`treasury template`), what is seen before
the yes, where the results are, and what reconciles it.

| operation | command | flow | sheet | preview | results | reconciled | why a cell is empty |
|---|---|---|---|---|---|---|---|
"""


def work_table() -> str:
    """The rows of the operations as work."""
    rows = []
    for name, work in WORK.items():
        code = (f"treasury {work.command}", work.flow.replace("_", "-"), work.sheet, work.preview, work.results)
        cells = [f"[{name}](#{name})", *(f"`{each}`" if each else "" for each in code), work.reconciled, work.reason]
        rows.append("| " + " | ".join(cells) + " |\n")
    return "".join(rows)


def operations_page() -> str:
    """docs/operations.md."""
    lines = [HEAD.format(count=len(CATALOGUE), example=next(iter(CATALOGUE)))]
    lines += [_row(operation) + "\n" for operation in CATALOGUE.values()]
    lines += [WORK_HEAD, work_table()]
    for name, operation in CATALOGUE.items():
        lines.append(f"\n## {name}\n\n{_text(operation.__doc__)}\n")
        fields = list(_fields(operation))
        if not fields:
            lines.append("\nNo fields of its own.\n")
            continue
        lines.append("\n| field | required | meaning |\n|---|---|---|\n")
        lines += [f"| `{field}` | {needed} | {meaning} |\n" for field, needed, meaning in fields]
    return "".join(lines)


def _row(operation: type[Operation[Any]]) -> str:
    asked = "" if operation.asked_with is None else f"`{operation.asked_with.operation_name()}`"
    reference = "" if operation.reference is None else f"`{operation.reference}`"
    name = operation.operation_name()
    cells = (f"[{name}](#{name})", f"`{operation.path}`", operation.effect.value, reference, asked, operation.source)
    return "| " + " | ".join(cells) + " |"


def _fields(operation: type[Operation[Any]]) -> Iterator[tuple[str, str, str]]:
    """Wire name, whether it is required, meaning; members of objects follow their object."""
    rules = {rule.field: rule for rule in operation.rules}
    for attribute, field in operation.model_fields.items():
        name = wire_name(operation, attribute)
        needed = "yes" if field.is_required() else "no"
        rule = rules.get(name)
        if isinstance(rule, Conditional):
            needed = f"when {rule.condition}" + ("; else not allowed" if rule.exclusive else "")
        elif rule is not None:
            needed = f"this or `{rule.other}`"
        yield name, needed, _cell(field.description)
        nested = members(operation)[name][1]
        if nested is not None:
            yield from _members(name, nested)


def _members(place: str, model: type[BaseModel]) -> Iterator[tuple[str, str, str]]:
    for attribute, field in model.model_fields.items():
        name = f"{place}.{wire_name(model, attribute)}"
        yield name, "yes" if field.is_required() else "no", _cell(field.description)


def class_table() -> str:
    """The rows of the table of classes, by priority."""
    return "".join(
        f"| `{each.name}` | {each.verdict.value} | {each.meaning} | {each.next_action} |\n" for each in CLASSES
    )


def service_table() -> str:
    """The rows of the `[service]` table: entry, variable, default, meaning."""
    rules = ServiceRules()
    rows = []
    for name, field in ServiceRules.model_fields.items():
        value = rules.entry(name)
        default = ", ".join(map(str, value)) if isinstance(value, list | dict) else str(value).lower()
        shown = f"`{default}`" if default else "none"
        default = f"`{value}`" if isinstance(value, str) else shown
        rows.append(f"| `{name}` | `{service_variable(name)}` | {default} | {_cell(field.description)} |\n")
    return "".join(rows)


TABLES = {"reconciliation-classes.md": ("classes", class_table), "settings.md": ("service", service_table)}
"""Page -> the marker around its table, and what makes the rows between."""


def with_table(name: str) -> str:
    """The page with its table made anew."""
    marker, table = TABLES[name]
    begin, end = f"<!-- {marker} -->\n", f"<!-- /{marker} -->"
    before, _, rest = (DOCS / name).read_text(encoding="utf-8").partition(begin)
    return before + begin + table() + end + rest.partition(end)[2]


def _text(documentation: str | None) -> str:
    return "\n".join(line.strip() for line in (documentation or "").strip().splitlines())


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    (DOCS / "operations.md").write_text(operations_page(), encoding="utf-8")
    for page in TABLES:
        (DOCS / page).write_text(with_table(page), encoding="utf-8")
