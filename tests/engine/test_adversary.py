"""Somebody with a shell and the database, and neither the ledger's key nor other people's: what leaves all the same."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update

from tests.commands.office import quoted_sheet
from tests.engine import paying
from tests.engine.approvers import ASKS, KEYS, PEOPLE, adopt, approve, change, later, start, waits
from tests.engine.runs import sheet
from treasury.approving.tokens import PREFIX, Verb, read_token
from treasury.errors import ApprovalNeeded, InputError, PlanRejected, PolicyChanged
from treasury.ledger import policies, schema
from treasury.ledger.approvals import reject_plan, waiting_plan, waiting_plans
from treasury.ledger.decisions import Word
from treasury.ledger.plans import record_plan
from treasury.ledger.policies import policy_in_force, policy_key
from treasury.ledger.proposals import add_proposal, cancel_plan
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.orders.states import Event, Hold, State
from treasury.payments import approving, execution
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.policy.people import Maker
from treasury.provider.fiat_payouts import FiatPayoutQuote

OpenDesk = Callable[..., Desk]
PERSON = {"by": "Ada Example", "why": "not this one"}
LOOSE = {"one_approval_above": {"USDT_TRC20": "1000000"}}


@pytest.fixture
def sandbox(start_sandbox: Any) -> Any:
    return start_sandbox()


@pytest.fixture
def desk(open_desk: OpenDesk, sandbox: Any) -> Desk:
    return open_desk(sandbox.base_url)


def record(desk: Desk, file: Path, run_key: str = "run") -> None:
    """Record a run, of which nothing leaves."""
    stop_sending(desk.ledger, stopped_by="Ada Example", why="a look first")
    assert set(start(desk, file, run_key).values()) == {"not_sent"}
    lift_stop(desk.ledger, "ben", proof=KEYS["ben"])


# --- policies ----------------------------------------------------------------------------------------------------


def test_approvals_that_brought_a_policy_do_not_bring_it_again(desk: Desk) -> None:
    adopt(desk, changes={"approvals": 1})
    strict = policy_in_force(desk.ledger)
    loose = {**PEOPLE, "ben": {**PEOPLE["ben"], "may": ["make", "approve"]}}

    def change_to(people: Any) -> str:
        with pytest.raises(ApprovalNeeded):
            adopt(desk, people, key="ada", changes={"approvals": 1})
        plans = desk.ledger.read(select(schema.plans.c.run_key).order_by(schema.plans.c.id.desc()))
        assert waiting_plan(desk.ledger, plans[0].run_key) is not None, "it is listed, so that people can approve it"
        approve(desk, "cleo", plans[0].run_key)
        adopt(desk, people, key="ada", changes={"approvals": 1})
        return str(plans[0].run_key)

    change_to(loose)
    assert change_to(PEOPLE) == policy_key(strict.version if strict else "")
    with pytest.raises(ApprovalNeeded):
        adopt(desk, loose, key="ada", changes={"approvals": 1})
    assert policy_in_force(desk.ledger).version == strict.version  # type: ignore[union-attr]


@pytest.mark.both_databases
def test_a_rejection_that_comes_while_a_policy_is_adopted_counts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    adopt(desk, changes={"approvals": 1})
    before = policy_in_force(desk.ledger)
    loose = {**PEOPLE, "ben": {**PEOPLE["ben"], "may": ["make", "approve"]}}
    with pytest.raises(ApprovalNeeded):
        adopt(desk, loose, key="ada")
    [plan] = waiting_plans(desk.ledger)
    approve(desk, "cleo", plan.run_key)

    def reject(_: str) -> None:
        monkeypatch.setattr(policies, "crash_point", lambda _: None)
        reject_plan(desk.ledger, plan.run_key, why="not this one", os_user="cleo", proof=KEYS["cleo"])

    monkeypatch.setattr(policies, "crash_point", reject)
    with pytest.raises(PlanRejected):
        adopt(desk, loose, key="ada")
    assert policy_in_force(desk.ledger) == before


@pytest.mark.parametrize("how", ["cancelled", "proposed anew", "changed by hand"])
@pytest.mark.both_databases
def test_what_ends_the_approvals_of_a_policy_while_it_is_adopted_counts(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    adopt(desk, changes={"approvals": 1})
    before = policy_in_force(desk.ledger)
    loose = {**PEOPLE, "ben": {**PEOPLE["ben"], "may": ["make", "approve"]}}
    with pytest.raises(ApprovalNeeded):
        adopt(desk, loose, key="ada")
    [plan] = waiting_plans(desk.ledger)
    approve(desk, "cleo", plan.run_key)

    def end(_: str) -> None:
        monkeypatch.setattr(policies, "crash_point", lambda _: None)
        if how == "cancelled":
            word = Word(Verb.CANCEL, "", "not this one", "cleo", KEYS["cleo"], named=plan.run_key)
            cancel_plan(desk.ledger, plan, word)
        elif how == "proposed anew":
            kept = {"run_key": plan.run_key, "plan_sha256": plan.sha256, "maker": "cleo", "os_user": "cleo"}
            more = {"needed": 1, "policy": plan.policy}
            desk.ledger.write(lambda connection: add_proposal(connection, desk.ledger, {**kept, **more}))
        else:
            change(desk, update(schema.plans).where(schema.plans.c.id == plan.id).values(maker="mallory"))

    monkeypatch.setattr(policies, "crash_point", end)
    with pytest.raises(InputError if how == "cancelled" else ApprovalNeeded):
        adopt(desk, loose, key="ada")
    assert policy_in_force(desk.ledger) == before


# --- what approvers see ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whose", ["another run's", "an earlier plan's"])
@pytest.mark.both_databases
def test_a_plan_that_is_shown_as_another_one_is_approved_by_nobody(desk: Desk, tmp_path: Path, whose: str) -> None:
    adopt(desk)
    small = sheet(tmp_path, ("a", "11", "12345670001"), name="small.csv")
    large = sheet(tmp_path, ("a", "99", "12345670666"), name="large.csv")
    key = "other" if whose == "another run's" else "run"
    seen = select(schema.plans.c.shown).where(schema.plans.c.run_key == key)
    waits(desk, small, key)
    [[harmless]] = desk.ledger.read(seen)
    waits(desk, large)
    change(desk, update(schema.plans).where(schema.plans.c.run_key == "run").values(shown=harmless))
    with pytest.raises(InputError, match="no plan that waits"):
        approve(desk, "ben")
    assert waiting_plan(desk.ledger, "run") is None
    anew = waits(desk, large)
    assert anew.shown is not None
    assert anew.shown["debits"] == {"USDT_TRC20": "99"}
    approve(desk, "ben")
    assert start(desk, large) == {"a": "settled"}


# --- runs --------------------------------------------------------------------------------------------------------


def test_a_run_that_claims_to_be_judged_by_the_policy_in_force_is_judged_anew(
    desk: Desk, tmp_path: Path, sandbox: Any
) -> None:
    adopt(desk, {}, payouts=LOOSE)
    file = sheet(tmp_path, ("a", "50", "12345670001"))
    record(desk, file)
    adopt(desk, {})
    strict = policy_in_force(desk.ledger)
    assert strict is not None
    change(desk, update(schema.runs).values(policy=strict.version))
    with pytest.raises(ApprovalNeeded):
        start(desk, file)
    ids = [order.id for order in desk.ledger.orders(run_key="run")]
    with pytest.raises(PolicyChanged):
        execution.send_orders(desk, "run", ids)
    assert sandbox.orders() == []
    with pytest.raises(ApprovalNeeded):
        paying.propose(desk, paying.plan_of(desk, file, "run"))
    approving.approve(desk, "run", name="Ben Example")
    assert start(desk, file) == {"a": "settled"}


def test_a_run_that_claims_to_be_a_smaller_sheet_is_compared_with_it(desk: Desk, tmp_path: Path, sandbox: Any) -> None:
    adopt(desk, {}, payouts=LOOSE)
    record(desk, sheet(tmp_path, ("a", "50", "12345670001")))
    adopt(desk, {})
    small = sheet(tmp_path, ("a", "1", "12345670001"), name="small.csv")
    change(desk, update(schema.runs).values(plan_sha256=paying.plan_of(desk, small, "other").sha256))
    with pytest.raises(InputError, match="changed since the run began"):
        start(desk, small)
    assert sandbox.orders() == []


# --- proposals ---------------------------------------------------------------------------------------------------


@pytest.mark.both_databases
def test_a_replaced_plan_does_not_come_back_when_its_successor_is_hidden(desk: Desk, tmp_path: Path) -> None:
    adopt(desk)
    first = sheet(tmp_path, ("a", "20", "12345670001"), name="first.csv")
    waits(desk, first)
    approve(desk, "ben")
    waits(desk, sheet(tmp_path, ("a", "19", "12345670001"), name="second.csv"))
    change(desk, update(schema.plans).where(schema.plans.c.number == 2).values(needed=0))
    with pytest.raises(ApprovalNeeded):
        start(desk, first)


def test_expired_approvals_are_noticed_when_their_proposal_was_changed(
    desk: Desk, tmp_path: Path, sandbox: Any
) -> None:
    adopt(desk)
    file = sheet(tmp_path, ("a", "20", "12345670001"))
    waits(desk, file)
    approve(desk, "ben")
    record(desk, file)
    later(desk, 73)
    change(desk, update(schema.plans).values(maker="somebody"))
    with pytest.raises(ApprovalNeeded, match="by hand"):
        start(desk, file)
    [cancelled] = cancel(desk, "run", KEYS["ben"], why="not needed").decisions
    assert (cancelled.done, sandbox.orders()) == (True, [])


ENDLESS = b'{"for":"approve","run":"r","code":"1","key":"k","signature":"","expires":1e999}'


@pytest.mark.parametrize("text", [b"[" * 2_900, b"{}", ENDLESS], ids=["deep", "empty", "endless"])
def test_a_token_that_nobody_can_read_is_refused_in_words(text: bytes) -> None:
    with pytest.raises(InputError, match="damaged"):
        read_token(PREFIX + base64.urlsafe_b64encode(text).decode())


def test_a_changed_plan_of_trades_is_recorded_anew(desk: Desk) -> None:
    maker, day = Maker("ada", "ada"), "2026-11-20"
    for _ in range(2):
        record_plan(
            desk.ledger, "rebalance", {"trades": []}, maker, policy=None, day=day, needed=1, ends_at=2**60, shown={}
        )
        change(desk, update(schema.plans).values(maker="somebody"))
    assert desk.ledger.read(select(schema.plans.c.number).order_by(schema.plans.c.id)) == [(1,), (2,)]


# --- orders ------------------------------------------------------------------------------------------------------


def test_a_cancelled_payment_that_was_put_back_as_it_was_is_held(desk: Desk, tmp_path: Path, sandbox: Any) -> None:
    file = sheet(tmp_path, ("a", "5", "12345670001"), ("b", "6", "12345670002"))
    record(desk, file)
    [before] = desk.ledger.read(select(schema.orders).where(schema.orders.c.row_ref == "a"))
    cancel(desk, "a", **PERSON)
    change(desk, update(schema.orders).where(schema.orders.c.id == before.id).values(**before._mapping))
    assert start(desk, file) == {"a": "held", "b": "settled"}
    assert len(sandbox.orders()) == 1
    [ended] = cancel(desk, "a", **PERSON).decisions
    assert (ended.done, ended.order.state) == (True, State.CANCELLED)


def test_what_the_service_knows_does_not_become_a_duplicate_that_a_sheet_releases(desk: Desk, tmp_path: Path) -> None:
    record(desk, sheet(tmp_path, ("a", "5", "12345670001")))
    [order] = desk.ledger.orders(run_key="run")
    desk.ledger.step(order, Event.HOLD, cause="the service knows it", hold_kind=Hold.KNOWN)
    change(desk, update(schema.orders).values(hold_kind=Hold.DUPLICATE.value))
    assert start(desk, sheet(tmp_path, ("a", "5", "12345670001"), why="meant")) == {"a": "held"}
    assert desk.ledger.orders(run_key="run")[0].hold_kind == Hold.CHANGED


def test_what_is_changed_while_its_run_sends_does_not_leave(desk: Desk, tmp_path: Path, sandbox: Any) -> None:
    file = sheet(tmp_path, ("a", "5", "12345670001"), ("b", "6", "12345670002"))
    with desk.hold("run"):
        [ids] = paying.commit(desk, file, "run")
        change(desk, update(schema.orders).where(schema.orders.c.row_ref == "a").values(amount="1"))
        execution.send_orders(desk, "run", ids)
    orders = {order.row_ref: order for order in desk.ledger.orders(run_key="run")}
    assert (orders["a"].state, "by hand" in str(orders["a"].reason)) == (State.PREPARED, True)
    assert len(sandbox.orders()) == 1
    assert start(desk, file) == {"a": "held", "b": "settled"}


# --- quotes ------------------------------------------------------------------------------------------------------


def fetched(desk: Desk, file: Path) -> list[int]:
    """A run whose quotes came, and none is confirmed."""
    ids = [order for some in paying.commit(desk, file, "run") for order in some]
    assert execution.fetch_quotes(desk, "run", ids) == len(ids)
    return ids


def strangers_quote(desk: Desk) -> str:
    """A quote of somebody else's account for the same amounts: asking for one needs no approval."""
    asked = desk.ledger.payload(desk.ledger.orders(run_key="run")[0])["quote"]
    party = {**asked["individual_beneficiary"], "account_no": "DE00000000000000000000"}
    reply = desk.client.send(FiatPayoutQuote(**{**asked, "request_id": "stranger", "individual_beneficiary": party}))
    return str(reply.order_no)


@pytest.mark.parametrize("held", [True, False], ids=["while_it_sends", "before_it_starts_again"])
def test_a_quote_of_somebody_else_is_not_confirmed(desk: Desk, tmp_path: Path, sandbox: Any, held: bool) -> None:
    file = quoted_sheet(tmp_path, 2)
    with desk.hold("run"):
        ids = fetched(desk, file)
        swapped = update(schema.quotes).where(schema.quotes.c.order_id == ids[0]).values(quote=strangers_quote(desk))
        if held:
            change(desk, swapped)
            execution.send_orders(desk, "run", ids)
    if not held:
        change(desk, swapped)
    found = start(desk, file)
    assert sorted(found.values()) == ["held", "settled"]
    assert sum(order["effects"] for order in sandbox.orders()) == 1


@pytest.mark.sqlite_alone
@pytest.mark.both_databases
def test_rows_of_another_accounts_ledger_with_the_same_key_count_as_none(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, ledger_url: str
) -> None:
    strict = open_desk(start_sandbox().base_url)
    adopt(strict)
    rehearsal = open_desk(start_sandbox().base_url, ledger=f"sqlite:///{tmp_path / 'rehearsal.db'}")
    adopt(rehearsal, {}, payouts=LOOSE)
    assert rehearsal.ledger.key.fingerprint == strict.ledger.key.fingerprint
    [row] = rehearsal.ledger.read(select(schema.policies))
    change(strict, insert(schema.policies).values(**{**row._mapping, "id": 7}))
    found = policy_in_force(strict.ledger)
    assert found is not None
    assert found.policy.table("payouts").one_approval_above["USDT_TRC20"] == 10
    assert ASKS["one_approval_above"]["USDT_TRC20"] == "10"
    change(strict, delete(schema.policies).where(schema.policies.c.id == 7))
