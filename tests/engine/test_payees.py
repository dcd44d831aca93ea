"""Payees: what the ledger remembers of them, what a preview shows, and what the policy holds."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import data
from tests.engine import paying
from tests.engine.payees import adopt, named
from tests.engine.paying import plan_of
from tests.engine.runs import pay
from tests.moved_clock import clock_of
from tests.parts import DIRECT, QUOTED
from treasury.call import calls
from treasury.concurrency.batches import Packed
from treasury.errors import InvalidSheet, LimitExceeded
from treasury.ledger.known_payees import payees, payments_to
from treasury.orders.records import Order
from treasury.orders.rows import PayoutRow, Route
from treasury.orders.states import Hold
from treasury.pay.payout_plans import read_plan
from treasury.pay.preview import gaps_of, look
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders
from treasury.planning.route_offers import Offers, judge_offered
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.fiat_payouts import CreateFiatPayout, FiatPayoutQuote
from treasury.reports.plan import preview_page
from treasury.texts import count_of

OpenDesk = Callable[..., Desk]

WALLET = {
    "settle_currency": "PHP",
    "payout_method": "wallet_transfer",
    "account_type": "EMAIL",
    "account_name": "Jose Example",
    "country": "PH",
    "wallet_code": "2000506",
    "phone": "639000007890",
    "email": "jose@example.com",
}
"""A payout to somebody whom an alias names."""


@pytest.mark.both_databases
def test_the_ledger_remembers_who_was_paid_under_which_names(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    pay(desk, named(tmp_path, ("a", "10", "12345670001", "Ann Example")), tmp_path / "1", "first")
    second = (("a", "20", "12345670001", "Anne Example"), ("b", "5", "12345670002", "Ann Example"))
    pay(desk, named(tmp_path, *second), tmp_path / "2", "second")
    known = {each.shown: each for each in payees(desk.ledger)}
    assert set(known) == {"ID 1000120 ***0001", "ID 1000120 ***0002"}
    first = known["ID 1000120 ***0001"]
    assert (first.payments, len(first.names), dict(first.sums)) == (2, 2, {"USDT_TRC20": 30})
    [order] = [order for order in desk.ledger.orders(run_key="first") if order.row_ref == "a"]
    same, others = payments_to(desk.ledger, order)
    assert [each.run_key for each in same] == ["first", "second"]
    assert [each.row_ref for each in others] == ["b"]


def test_a_preview_names_new_and_changed_payees_funds_and_gaps(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    pay(desk, named(tmp_path, ("a", "10", "12345670001", "Ann Example")), tmp_path / "1", "first")
    file = named(
        tmp_path,
        ("same", "11", "12345670001", "Ann Example"),
        ("changed", "12", "12345670099", "Ann Example"),
        ("new", "600000", "12345670003", "Bob Example"),
    )
    shown = look(desk, read_plan(file, "second"), file)
    notes = {row["row_ref"]: row["note"] for row in shown["rows"]}
    assert notes == {
        "same": None,
        "changed": "this name was paid to another account before: ***0001, now ***0099",
        "new": "first payment to this account",
    }
    [funds] = shown["funding"]
    assert (funds["debit"], funds["in_flight"]) == ("600023", "0")
    assert funds["remains"] == str(int(float(funds["balance"])) - 600_023)
    assert gaps_of(shown) == [f"{funds['remains'][1:]} USDT_TRC20"]
    assert ("NOT FUNDED: USDT_TRC20", f"{funds['remains'][1:]} USDT_TRC20 are missing") in preview_page(shown, 0).facts
    assert [(each["kind"], each["payments"]) for each in shown["groups"]] == [("country", 3), ("route", 3), ("bank", 3)]
    assert [each["name"] for each in shown["groups"]] == ["Indonesia (ID)", "direct", "Bank Central Asia (ID 1000120)"]
    cost = {"currency": "USDT_TRC20", "of": "600023", "fee": "6000.23", "payments": 3, "is": "out of what is sent"}
    assert shown["fees"] == [cost]
    assert shown["not_asked"] == []
    paying.commit(desk, named(tmp_path, ("w", "40", "12345670004", "Cy Example"), name="w.csv"), "waits")
    shown = look(desk, read_plan(file, "second"), file)
    assert shown["funding"][0]["in_flight"] == "40"


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("amount", "10.1234567", "has more decimals than USDT_TRC20 has (6)"),
        ("bank_code", "9999999", "is not a code that the service lists for IDR in ID"),
        ("country", "IDN", "is no country code of two capital letters (ISO 3166-1): write ID"),
        ("country", "Indonesia", "(ISO 3166-1): write ID"),
        ("country", "XX", "is no country code of two capital letters (ISO 3166-1)"),
    ],
)
def test_what_the_service_would_refuse_is_found_by_a_look(
    column: str, value: str, says: str, open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    file = named(tmp_path, ("a", "10", "12345670001", "Ann Example"))
    lines = [line.split(",") for line in file.read_text().splitlines()]
    lines[1][lines[0].index(column)] = value
    file.write_text("\n".join(map(",".join, lines)) + "\n")
    with pytest.raises(InvalidSheet) as raised:
        look(desk, read_plan(file, "run"), file)
    [problem] = raised.value.problems
    assert (problem.row, problem.column) == (2, column)
    assert says in problem.rule


def test_what_the_service_offers_since_its_list_was_kept_is_asked_for_before_a_row_is_refused(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    file = named(tmp_path, ("a", "10", "12345670001", "Ann Example"))
    look(desk, read_plan(file, "run"), file)
    [kept] = (desk.settings.home / "lists").iterdir()
    kept.write_text(kept.read_text().replace('"1000120"', '"1000121"'))  # as it was before the service had this bank
    clock_of(desk).move(3600)
    look(desk, read_plan(file, "run"), file)
    assert '"1000120"' in kept.read_text()


def test_a_preview_says_how_the_sheet_was_read(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    desk = open_desk(start_sandbox().base_url)
    file = named(tmp_path, ("a", "10", "12345670001", "Ann Example"))
    file.write_text("Payroll of November\n\n" + file.read_text())
    shown = look(desk, read_plan(file, "run"), file)
    assert shown["notes"] == [
        "the header is in row 3; what stands above it (1) was not read",
        "not checked, for no rule is known: account numbers of ID",
    ]
    page = preview_page(shown, 0)
    assert ("Read from the sheet", shown["notes"][0]) in page.facts


def test_an_asset_whose_decimals_nobody_knows_is_not_judged_by_a_currencys() -> None:
    rows = Packed[PayoutRow]()
    fields = {"currency": "SOL", "amount": "10.123456789", "settle_currency": "JPY", "country": "JP", "bank_code": "1"}
    rows.append(PayoutRow(2, "a", Route.DIRECT, fields))
    rows.append(PayoutRow(3, "b", Route.DIRECT, fields | {"currency": "JPY", "amount": "10.5"}))
    assert [(each.row, each.column) for each in judge_offered(rows, Offers())] == [(3, "amount")]


def test_what_only_a_quote_will_tell_is_estimated_and_said(open_desk: OpenDesk, service: Any, tmp_path: Path) -> None:
    desk = open_desk(service.base_url)
    service.plan("/v1/balance/partner", (200, {"code": 200, "data": {"availableBalance": "100"}}))
    file = tmp_path / "rows.csv"
    row = {**QUOTED, "quote_mode": "dest", "receive_amount": "90", "account_no": "DE89370400440532013000"}
    del row["pay_amount"]
    file.write_text("\n".join([",".join(["row_ref", *row]), ",".join(["q", *row.values()])]) + "\n")
    shown = look(desk, read_plan(file, "run"), file)
    [funds] = shown["funding"]
    open_end = "100 USDT remain, before 1 row whose debit nobody knows yet"
    assert dict(preview_page(shown, 0).facts)["Funded: USDT"] == open_end
    assert (funds["estimated"], funds["not_known"], funds["remains"]) == ("0", 1, "100")
    service.plan("/v1/rate/queryTradeRate", (200, {"code": 200, "data": {"rate": "0.8"}}))
    shown = look(desk, read_plan(file, "run"), file)
    assert (shown["funding"][0]["estimated"], shown["funding"][0]["not_known"]) == ("112.50", 0)
    assert gaps_of(shown) == ["12.50 USDT"]
    assert ("NOT FUNDED: USDT", "12.50 USDT are missing, before fees") in preview_page(shown, 0).facts


def test_a_single_payout_to_somebody_new_is_held_by_the_same_rule(open_desk: OpenDesk, start_sandbox: Any) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, new_payee_above={"USDT_TRC20": "50"})
    fields = {**DIRECT, "currency": "USDT_TRC20", "account_no": "12345670001"}
    del fields["route"]

    def call(reference: str, amount: str) -> str:
        operation = CATALOGUE["payout"](**{**fields, "request_id": reference, "amount": amount})
        return calls.submit_operation(desk, operation).state.value

    assert call("large", "51") == "held"
    assert call("small", "50") == "accepted"
    assert call("larger", "52") == "accepted"  # the payee was paid before


def test_an_alias_that_looks_like_a_payees_is_new_and_a_duplicate(open_desk: OpenDesk, start_sandbox: Any) -> None:
    """Anybody may take the other alias: it was paid as the payee that was paid before."""
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, new_payee_above={"USDT_TRC20": "50"})
    fields = {**WALLET, "currency": "USDT_TRC20"}

    def call(reference: str, amount: str, alias: str) -> Order:
        operation = CATALOGUE["payout"](**fields, request_id=reference, amount=amount, account_no=alias)
        return calls.submit_operation(desk, operation)

    assert call("first", "10", "jose@example.com").state.value == "accepted"
    assert call("known", "60", "JOSE@example.com").state.value == "accepted"
    assert call("taken", "61", "j0se@example.com").hold_kind == Hold.PAYEE
    assert call("mistyped", "60", "j0se@example.com").hold_kind == Hold.DUPLICATE


def test_another_account_of_a_known_name_waits_whoever_pays_it(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, cooling_days=3)
    fields = {**DIRECT, "currency": "USDT_TRC20", "account_name": "Ann Example"}
    del fields["route"]

    def call(reference: str, account: str) -> str:
        operation = CATALOGUE["payout"](**{**fields, "request_id": reference, "account_no": account})
        return calls.submit_operation(desk, operation).state.value

    assert call("first", "12345670001") == "accepted"
    assert call("other", "12345670002") == "held"
    file = named(tmp_path, ("a", "11", "12345670003", "ANN EXAMPLE"))
    assert pay(desk, file, tmp_path / "1", "sheet")["counts"] == {"held": 1}


def confirmed(desk: Desk, amount: str) -> Order:
    """Ask for a quote, and confirm it, each by a call."""
    party = {"account_no": "DE02120300000000202051", "bank_name": "Musterbank", "address": "Ring 1"}
    asked = {
        **{name: QUOTED[name] for name in FiatPayoutQuote.model_fields if name in QUOTED},
        "request_id": f"q-{amount}",
        "pay_amount": amount,
        "clear_network": "LOCAL_PAYMENT",
        "individual_beneficiary": {**party, "full_name": "Ann Example"},
    }
    number = calls.send_operation(desk, FiatPayoutQuote(**asked))["data"]["order_no"]
    return calls.submit_operation(desk, CreateFiatPayout(order_no=number, purpose_code="22"))


def test_a_quote_of_too_low_a_rate_is_not_confirmed(open_desk: OpenDesk, start_sandbox: Any) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, min_rates={"USDT-EUR": "5"})
    with pytest.raises(LimitExceeded, match="and min_rates asks for 5 at least"):
        confirmed(desk, "10")
    assert desk.ledger.orders() == []


@pytest.mark.parametrize("limits", [{"new_payee_above": {"USDT": "50"}}, {"cooling_days": 3}], ids=str)
def test_whoever_confirms_a_quote_pays_its_beneficiary(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, limits: dict[str, Any]
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, max_per_run={"USDT": "1000"}, **limits)
    if "cooling_days" in limits:
        pay(desk, named(tmp_path, ("a", "10", "12345670001", "Ann Example")), tmp_path / "1", "first")

    order = confirmed(desk, "51")
    assert (order.state.value, order.hold_kind) == ("held", Hold.PAYEE)
    kept = b"".join(file.read_bytes() for file in tmp_path.glob("ledger.db*") if file.is_file())
    assert [each for each in (b"Ann Example", b"0202051") if each in kept] == []


def test_what_a_quote_takes_is_not_estimated_as_the_fee_of_a_withdrawal(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """The sandbox takes 1.25 of a quoted payment, and 1 % of a withdrawal, which is what it estimates."""
    desk = open_desk(start_sandbox().base_url)
    file = tmp_path / "sample.csv"
    file.write_text(data.path("beneficiaries.csv").read_text().replace(",USDT,", ",USDT_TRC20,"))
    plan = read_plan(file, "run")
    direct = [row.amount for row in plan.rows if row.route is Route.DIRECT and row.amount is not None]
    shown = look(desk, plan, file)
    facts = dict(preview_page(shown, 0).facts)
    [cost] = shown["fees"]
    assert (cost["payments"], Decimal(cost["fee"])) == (len(direct), sum(direct) / 100)
    assert (shown["fees_quoted"], shown["not_asked"]) == (len(plan.rows) - len(direct), [])
    assert f"{count_of(shown['fees_quoted'], 'payment')}: each quote" in facts["Fees (quoted)"]


def test_lists_are_asked_once_a_day_and_a_silent_service_is_no_reason(
    open_desk: OpenDesk, service: Any, tmp_path: Path
) -> None:
    desk = open_desk(service.base_url)
    file = named(tmp_path, ("a", "10", "12345670001", "Ann Example"))
    shown = look(desk, read_plan(file, "run"), file)
    assert shown["not_asked"] == [
        "banks and wallets of IDR in ID",
        "balance of USDT_TRC20",
        "rate of USDT_TRC20 in IDR",
        "fee estimate of USDT_TRC20",
    ]
    service.plan("/v1/fee/queryPayoutChannel", (200, {"code": 200, "data": {"banks": [{"code": "1000120"}]}}))
    for _ in range(3):
        look(desk, read_plan(file, "run"), file)
    assert len(service.sent_to("/v1/fee/queryPayoutChannel")) <= 4
    asked = len(service.sent_to("/v1/fee/queryPayoutChannel"))
    look(desk, read_plan(file, "run"), file)
    assert len(service.sent_to("/v1/fee/queryPayoutChannel")) == asked
    assert not service.sent_to("/v1/fiatpayout/payouts/quote")


def test_a_service_that_is_away_is_asked_once(open_desk: OpenDesk, service: Any, tmp_path: Path) -> None:
    asked: list[str] = []
    for path in ("/v1/fee/queryPayoutChannel", "/v1/balance/partner", "/v1/rate/queryTradeRate", "/v1/fee/estimate"):
        service.plan(path, lambda _, path=path: asked.append(path) or "drop")
    desk = open_desk(service.base_url)
    file = named(tmp_path, ("a", "10", "12345670001", "Ann Example"))
    shown = look(desk, read_plan(file, "run"), file)
    assert len(shown["not_asked"]) == 4
    assert set(asked) == {"/v1/fee/queryPayoutChannel"}


def test_a_large_first_payment_is_held_until_a_person_releases_it(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, new_payee_above={"USDT_TRC20": "50"})
    file = named(tmp_path, ("small", "50", "12345670001", "Ann Example"), ("large", "51", "12345670002", "Bob Example"))
    assert pay(desk, file, tmp_path / "out")["counts"] == {"settled": 1, "held": 1}
    [held] = [order for order in desk.ledger.orders() if order.row_ref == "large"]
    assert (held.hold_kind, "new_payee_above (50 USDT_TRC20)" in str(held.reason)) == (Hold.PAYEE, True)
    assert pay(desk, file, tmp_path / "out")["counts"] == {"settled": 1, "held": 1}
    release_orders(desk, "run", None, by="Ada Example", why="called the payee")
    assert pay(desk, file, tmp_path / "out")["counts"] == {"settled": 2}
    again = named(tmp_path, ("more", "500", "12345670002", "Bob Example"), name="again.csv")
    assert pay(desk, again, tmp_path / "again", "again")["counts"] == {"settled": 1}


def test_another_account_of_a_known_name_waits_so_many_days(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, cooling_days=3)
    pay(desk, named(tmp_path, ("a", "10", "12345670001", "Ann Example")), tmp_path / "1", "first")
    rows = (("a", "10", "12345670002", "ANN  EXAMPLE"), ("b", "7", "12345670003", "Bob Example"))
    file = named(tmp_path, *rows)
    assert pay(desk, file, tmp_path / "2", "second")["counts"] == {"settled": 1, "held": 1}
    [held] = [order for order in desk.ledger.orders(run_key="second") if order.row_ref == "a"]
    assert (held.hold_kind, held.reason) == (
        Hold.PAYEE,
        "this name was paid to another account before: it waits 3 days",
    )
    clock_of(desk).move(3 * 86_400 + 1)
    paying.commit(desk, file, "second")
    [cooled] = [order for order in desk.ledger.orders(run_key="second") if order.row_ref == "a"]
    assert cooled.state.value == "prepared"


@pytest.mark.both_databases
def test_a_known_name_waits_also_where_another_name_was_paid_to_its_new_account(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, cooling_days=3)
    pay(desk, named(tmp_path, ("a", "10", "12345670001", "Ann Example")), tmp_path / "1", "first")
    rows = (("door", "5", "12345670002", "A. Nobody"), ("large", "900", "12345670002", "Ann Example"))
    file = named(tmp_path, *rows)
    for _ in range(2):
        assert pay(desk, file, tmp_path / "2", "second")["counts"] == {"settled": 1, "held": 1}
    third = named(tmp_path, ("more", "90", "12345670002", "Ann Example"), name="third.csv")
    assert pay(desk, third, tmp_path / "3", "third")["counts"] == {"held": 1}
    clock_of(desk).move(3 * 86_400 + 1)
    assert pay(desk, file, tmp_path / "4", "second")["counts"] == {"settled": 2}
    assert pay(desk, third, tmp_path / "5", "third")["counts"] == {"settled": 1}


@pytest.mark.parametrize("how", ["another name", "cancelled"])
def test_a_known_name_waits_from_its_own_first_payment_to_the_account_on(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, how: str
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, cooling_days=3)
    pay(desk, named(tmp_path, ("a", "10", "12345670001", "Ann Example")), tmp_path / "1", "first")
    name = "Ann Example" if how == "cancelled" else "A. Nobody"
    pay(desk, named(tmp_path, ("door", "5", "12345670002", name)), tmp_path / "2", "second")
    if how == "cancelled":
        cancel(desk, "second", by="Ben Example", why="she never changed her account")
    clock_of(desk).move(3 * 86_400 + 1)
    large = named(tmp_path, ("large", "900", "12345670002", "Ann Example"), name="large.csv")
    assert pay(desk, large, tmp_path / "3", "third")["counts"] == {"held": 1}
    clock_of(desk).move(3 * 86_400 + 1)
    assert pay(desk, large, tmp_path / "4", "third")["counts"] == {"settled": 1}


def test_a_run_is_shown_beside_the_last_one_of_the_same_people(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    people = [("a", "100", "12345670001", "Ann Example"), ("b", "100", "12345670002", "Ben Example")]
    people += [("c", "100", "12345670003", "Cy Example"), ("d", "100", "12345670004", "Di Example")]
    pay(desk, named(tmp_path, *people), tmp_path / "1", "october")
    pay(desk, named(tmp_path, ("x", "999", "12345670099", "Xu Example")), tmp_path / "2", "somebody-else")
    same = look(desk, read_plan(named(tmp_path, *people), "copy"))
    assert dict(preview_page(same, 0).facts)["As in the last run"].startswith("the same payees as run october")
    november = named(
        tmp_path,
        ("a", "120", "12345670001", "Ann Example"),  # no more than 20 %
        ("b", "121", "12345670002", "Ben Example"),
        ("c", "100.5", "12345670003", "Somebody Else"),
        ("e", "100", "12345670005", "Eve Example"),
    )
    shown = look(desk, read_plan(november, "november"))
    beside = shown["beside"]
    assert (beside["run_key"], beside["gone"], beside["new"]) == ("october", ["d"], ["e"])
    assert (beside["changed"], beside["renamed"]) == (["b"], ["c"])
    assert beside["totals"] == ["the last run like it: 400 USDT_TRC20; this one is +10 %"]
    notes = {row["row_ref"]: row["note"] for row in shown["rows"]}
    assert "121 USDT_TRC20 (+21 %) instead of 100 in run october" in notes["b"]
    assert "another name in run october" in notes["c"]
    assert notes["a"] is None
    assert desk.ledger.run("november") is None
    pay(desk, november, tmp_path / "3", "november")
    assert {order.state.outcome for order in desk.ledger.orders(run_key="november")} == {"settled"}


@pytest.mark.both_databases
def test_the_policy_holds_what_differs_from_the_last_run(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, when_changed="hold", change_above_percent="50")
    people = (("a", "100", "12345670001", "Ann Example"), ("b", "100", "12345670002", "Ben Example"))
    pay(desk, named(tmp_path, *people), tmp_path / "1", "october")
    november = named(tmp_path, ("a", "49", "12345670001", "Ann Example"), ("b", "150", "12345670002", "Ben Example"))
    [waits] = [row for row in plan_of(desk, november, "november").rows if row.row_ref == "a"]
    shown = look(desk, plan_of(desk, november, "november"))
    assert [row["row_ref"] for row in shown["rows"] if "will be held" in str(row["note"])] == [waits.row_ref]
    for _ in range(2):  # the next start holds it still
        pay(desk, november, tmp_path / "2", "november")
        states = {order.row_ref: order.state.outcome for order in desk.ledger.orders(run_key="november")}
        assert states == {"a": "held", "b": "settled"}
    [held] = [order for order in desk.ledger.orders(run_key="november") if order.row_ref == "a"]
    assert held.hold_kind == Hold.PAYEE
    assert "49 USDT_TRC20 (-51 %) instead of 100 in run october" in str(held.reason)
    release_orders(desk, "november", None, by="Bob Example", why="half a month")
    pay(desk, november, tmp_path / "2", "november")
    assert {order.state.outcome for order in desk.ledger.orders(run_key="november")} == {"settled"}
