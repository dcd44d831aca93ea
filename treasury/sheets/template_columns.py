"""Columns of templates: what each is for, made from the operation that it goes into."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from pydantic import BaseModel, BeforeValidator

from treasury.provider.fields import OneOf
from treasury.provider.operation import Conditional, marks_of

_SOURCE = re.compile(r" \((?:public fact|document)[^)]*\)")
"""The source that a description names, which tells nothing to whoever fills in a sheet."""


class Need(IntEnum):
    """The need of a value in a column."""

    NO = 0
    SOMETIMES = 1
    """On some rows: the note says on which."""
    YES = 2


@dataclass(frozen=True)
class TemplateColumn:
    """One column of a template."""

    name: str
    note: str
    need: Need = Need.NO
    choices: tuple[str, ...] = ()
    is_complete: bool = True
    """False where other values than these choices may be right, too."""
    is_amount: bool = False


@dataclass(frozen=True)
class Template:
    """A sheet before anybody filled it in."""

    kind: str
    columns: tuple[TemplateColumn, ...]
    examples: tuple[Mapping[str, str], ...]
    """Rows that are refused until they are replaced."""
    amounts: tuple[tuple[str, str], ...] = ()
    """Columns that are summed, each with the column of its currency."""
    currencies: tuple[str, ...] = ()
    """Currencies whose sums are shown."""


def column_of(model: type[BaseModel], name: str) -> TemplateColumn:
    """A column that is a field of an operation: its description without a source, and whether it is required."""
    field = model.model_fields[name]
    rules = [rule for rule in getattr(model, "rules", ()) if isinstance(rule, Conditional) and rule.field == name]
    said = _SOURCE.sub("", field.description or "").replace("`", "")
    if field.is_required():
        need, words = Need.YES, "Required."
    elif rules:
        need = Need.SOMETIMES
        words = "" if "Required" in said else " ".join(f"Required when {rule.condition}." for rule in rules)
    else:
        need, words = Need.NO, "Optional."
    is_amount = name == "amount" or name.endswith("_amount")
    return TemplateColumn(name, f"{said} {words}".strip(), need, listed_values(model, name), is_amount=is_amount)


def listed_values(model: type[BaseModel], attribute: str) -> tuple[str, ...]:
    """The values that a field may have, where the interface lists them."""
    field = model.model_fields[attribute]
    marks = (*field.metadata, *marks_of(field.annotation))
    checks = (mark.func for mark in marks if isinstance(mark, BeforeValidator))
    return next((check.values for check in checks if isinstance(check, OneOf)), ())
