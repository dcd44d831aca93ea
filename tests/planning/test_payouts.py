"""The plan of a payout run: what people approve, and what it is made of."""

import csv
import hashlib
import json
from decimal import Decimal
from pathlib import Path

import pytest

import data
from tests.parts import DIRECT, QUOTED
from treasury.orders.quoting import masked_payload
from treasury.orders.records import Intent
from treasury.pay.payout_plans import read_plan
from treasury.planning.payout_planner import plan_row
from treasury.planning.shown import TWO_NAMES, Known, shown_payouts
from treasury.reports.plan import as_lines, preview_page, rows_of
from treasury.sheets.beneficiaries import read_beneficiaries
from treasury.texts import count_of

SHEET = data.path("beneficiaries.csv")


@pytest.mark.parametrize("policy", [None, data.path("treasury_policy.toml")])
def test_the_hash_covers_rows_bounds_and_policy_as_canonical_json(policy: Path | None) -> None:
    """Approvals are bound to it, and a run to all that it covers."""
    plan = read_plan(SHEET, "run", policy)
    bounds = [intent.payload.get("bounds") for intent in plan.intents]
    parts = [
        hashlib.sha256(canonical([row.row_ref, row.bound_content, bound])).digest()
        for row, bound in zip(plan.rows, bounds, strict=True)
    ]
    version = canonical(None if plan.policy is None else plan.policy.fingerprint("payouts"))
    assert plan.sha256 == hashlib.sha256(version + b"".join(sorted(parts))).hexdigest()
    assert any(bounds)
    assert not all(bounds)


def canonical(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def test_the_hash_does_not_follow_the_order_of_rows(tmp_path: Path) -> None:
    head, *rows = Path(SHEET).read_text(encoding="utf-8").splitlines()
    turned = tmp_path / "turned.csv"
    turned.write_text("\n".join([head, *reversed(rows)]), encoding="utf-8")
    assert read_plan(turned, "run").sha256 == read_plan(SHEET, "run").sha256
    turned.write_text("\n".join([head, *rows[1:]]), encoding="utf-8")
    assert read_plan(turned, "run").sha256 != read_plan(SHEET, "run").sha256


def test_payments_that_nothing_bounds_are_counted_and_a_ceiling_bounds_them() -> None:
    plan = read_plan(SHEET, "run")
    assert (plan.debits["USDT"], plan.unbounded) == (Decimal("6365.40"), {"USDT": 2})
    said = dict(preview_page(shown_payouts(plan, Known()), 0).facts)
    assert said["Debits without a bound"].startswith("2 payments in USDT: they fix what is received")
    bounded = read_plan(SHEET, "run", data.path("treasury_policy.toml"))
    assert bounded.unbounded == {}
    assert bounded.debits["USDT"] > plan.debits["USDT"]
    assert "Debits without a bound" not in dict(preview_page(shown_payouts(bounded, Known()), 0).facts)


def test_the_largest_payments_are_those_of_each_currency() -> None:
    largest = shown_payouts(read_plan(SHEET, "run"), Known())["largest"]
    assert largest == [
        "INV-105",
        "INV-103",
        "INV-104",
        "INV-101",
        "INV-102",
        "EMP-004",
        "EMP-001",
        "EMP-003",
        "EMP-005",
        "EMP-006",
    ]


def test_one_account_under_two_names_is_said_in_any_currency_and_on_any_route(tmp_path: Path) -> None:
    someone = {**DIRECT, "account_no": "7700112233", "account_name": "Someone Else Contoh"}
    same = {**someone, "account_no": "77-0011-2233", "amount": "100.000001", "currency": "USDT_TRC20"}
    quoted = {**QUOTED, "beneficiary_country": "ID", "account_no": "7700112233", "receive_currency": "IDR"}
    rows = {
        "X1": {**someone, "account_no": "7700112234", "account_name": "Third Contoh"},
        "X2": someone,
        "X4": {**same, "account_name": "Agus Wijaya Contoh"},
        "X5": {**someone, "account_no": "55", "account_name": "Ms. Budi Contoh"},
        "X6": {**someone, "account_no": "55", "account_name": "MS BUDI CONTOH", "currency": "USDT_TRC20"},
        "X7": {**someone, "bank_code": "1000121", "account_name": "Owner There"},
        "X8": {**quoted, "full_name": "Example Person"},
    }
    names = ["row_ref", *dict.fromkeys(name for row in rows.values() for name in row)]
    file = tmp_path / "rows.csv"
    for left, noted in (((), {"X2", "X4", "X7", "X8"}), (("X8",), {"X2", "X4"})):
        with file.open("w", newline="") as out:
            writer = csv.DictWriter(out, names)
            writer.writeheader()
            writer.writerows({"row_ref": ref, **row} for ref, row in rows.items() if ref not in left)
        shown = shown_payouts(read_plan(file, "run"), Known())
        assert {row["row_ref"] for row in shown["rows"] if "under different names" in (row["note"] or "")} == noted
        page = preview_page(shown, 0)
        assert dict(page.facts)["One account, two names"] == f"{count_of(len(noted), 'payment')}, see the notes"
        assert "under different names" in "\n".join(as_lines(page, only_noted=True))


def test_held_payments_and_two_names_are_listed_before_first_payments() -> None:
    first = "first payment to this account"
    notes = [None, first, f"{first}; {TWO_NAMES}", f"{first}; will be held: it is new"]
    rows = rows_of({"rows": [{"row_ref": str(at), "note": note} for at, note in enumerate(notes)]})
    assert [row["row_ref"] for row in rows] == ["3", "2", "1", "0"]


def test_intents_are_those_of_the_rows_however_often_they_are_looked_at() -> None:
    plan = read_plan(SHEET, "run")
    expected: list[Intent] = [plan_row(row) for row in read_beneficiaries(SHEET)]
    assert len(expected) == len(plan.rows) == 12
    assert list(plan.intents) == list(plan.intents) == expected


def test_what_people_may_see_of_a_payment_says_the_amount_and_nothing_personal() -> None:
    seen = {"account_no": 0, "account_name": 0, "full_name": 0, "address": 0, "company_name": 0, "email": 0}
    for intent in read_plan(SHEET, "run").intents:
        shown = masked_payload(intent.operation, intent.payload)
        asked = intent.payload.get("quote", intent.payload)
        party = asked.get("individual_beneficiary") or asked.get("enterprise_beneficiary") or {}
        for name in seen.keys() & {**asked, **party}.keys():
            seen[name] += 1
            assert {**asked, **party}[name] not in json.dumps(shown, ensure_ascii=False)
        amounts = {"amount", "pay_amount", "receive_amount"} & asked.keys()
        assert {name: shown[name] for name in amounts} == {name: asked[name] for name in amounts}
    assert all(seen.values())
