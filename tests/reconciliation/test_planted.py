"""The report names exactly the planted differences, each in one class, whatever the order of the rows."""

import random
from typing import Any

import pandas as pd
import pytest

from tests.reconciliation.parts import build_with_orders, in_parts
from tests.reconciliation.planted import AS_OF, PLANTS, Row, plant_ledger
from treasury.reconciliation.classes import BY_NAME, PRIORITY, UNREMARKABLE, Verdict
from treasury.reconciliation.report import ReconciliationInput, Report
from treasury.reconciliation.sides import COLUMNS
from treasury.reports.machine import as_machine


def night(rows: list[Row], size: int = 1_000) -> tuple[Report, pd.DataFrame]:
    frame = pd.DataFrame([{**dict.fromkeys(COLUMNS), **row} for row in rows], columns=list(COLUMNS), dtype=object)
    return build_with_orders(ReconciliationInput(AS_OF, in_parts(frame, size)))


@pytest.mark.parametrize("seed", [1, 2])
def test_ten_thousand_orders_with_planted_differences_are_told_apart(seed: int) -> None:
    rows, truth = plant_ledger(10_000, seed, dict(PRIORITY))
    report, orders = night(rows)
    found = dict(zip(orders["request_id"], orders["class"], strict=True))
    assert {key: (name, found[key]) for key, name in truth.items() if found[key] != name} == {}
    assert {plant.name for plant in PLANTS} <= set(truth.values())
    listed = {each.found.request_id: each.found.name for each in report.breaks}
    assert listed == {key: name for key, name in truth.items() if name not in UNREMARKABLE}
    assert report.verdict is Verdict.INCOMPLETE


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.name}-{PLANTS.index(plant)}")
def test_one_difference_alone_decides_the_verdict(plant: Any) -> None:
    rows, truth = plant_ledger(60, 5, dict(PRIORITY))
    calm = [row for row in rows if truth[row["request_id"]] == "matched"]
    target = next(row for row in calm if row["operation"] in plant.kinds)
    plant.change(target, random.Random(1))
    report, _ = night(calm)
    assert [(each.found.request_id, each.found.name) for each in report.breaks] == [(target["request_id"], plant.name)]
    assert report.verdict is BY_NAME[plant.name].verdict


def test_shuffled_orders_in_parts_of_any_size_give_the_same_machine_form_and_the_same_orders() -> None:
    rows, _ = plant_ledger(1_000, 3, dict(PRIORITY))
    report, orders = night(rows)
    random.Random(9).shuffle(rows)
    for size in (5, 400):
        again, in_parts_of_it = night(rows, size)
        assert as_machine(again) == as_machine(report)
        assert in_parts_of_it.equals(orders)
