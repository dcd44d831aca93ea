"""The judge of limits: no field of a policy is left out, and who is named to read a field reads it."""

import ast
from pathlib import Path

import pytest
from pydantic import Field

import treasury
from treasury.policy.judge import JUDGES, READ_BY, check_judged, tables_of
from treasury.policy.limits import Limits, PayoutLimits
from treasury.policy.model import AssetBand, Policy
from treasury.policy.tables import ByCurrency, PolicyTable

ROOT = Path(treasury.__file__).parent


def test_a_field_that_nobody_judges_is_named() -> None:
    class Wider(PayoutLimits):
        """A table with a limit of a week."""

        max_per_week: ByCurrency = Field(default_factory=dict)

    class Banded(AssetBand):
        """A band with a ceiling."""

        ceiling: str | None = None

    class Longer(Policy):
        """A policy with such tables."""

        payouts: Wider | None = None
        assets: dict[str, Banded] = Field(default_factory=dict)  # type: ignore[assignment]

    check_judged(Policy)
    with pytest.raises(TypeError, match=r"(Wider: .* max_per_week|Banded: .* ceiling): say who does"):
        check_judged(Longer)


def test_every_judge_and_every_reader_is_of_a_field() -> None:
    tables = set(tables_of(Policy))
    limits = {field for table in tables if issubclass(table, Limits) for field in table.model_fields}
    assert JUDGES.keys() <= limits
    for table, read in READ_BY.items():
        assert {name for names in read.values() for name in names.split()} <= table.model_fields.keys(), table


@pytest.mark.parametrize("table", READ_BY, ids=lambda table: table.__name__)
def test_a_module_that_is_named_reads_the_field(table: type[PolicyTable]) -> None:
    for module, names in READ_BY[table].items():
        tree = ast.parse((ROOT / f"{module}.py").read_text(encoding="utf-8"))
        read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert set(names.split()) <= read, module
