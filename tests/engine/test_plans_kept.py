"""A plan is made once and kept: another process takes it whole, and nobody changes it, or takes it for another run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

import data
from tests.engine.approvers import adopt, change
from tests.engine.runs import night, sheet
from tests.moved_clock import clock_of
from treasury.call.calls import send_operation
from treasury.collect.collecting import collect_and_write
from treasury.errors import InputError, PolicyChanged
from treasury.ledger import schema
from treasury.ledger.epoch import begin_epoch
from treasury.ledger.plans import kept_plan
from treasury.ledger.snapshots import expected_receipts
from treasury.pay import agreeing, payouts
from treasury.pay.payout_plans import PayRequest, make_plan, take_plan
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.provider.orders import Pay

OpenDesk = Callable[..., Desk]
ROWS = (("a", "10", "12345670001"), ("b", "20", "12345670002"))


@pytest.mark.both_databases
def test_another_process_takes_the_plan_whole(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    url = start_sandbox().base_url
    desk = open_desk(url)
    made = make_plan(desk, PayRequest(data.path("beneficiaries.csv"), "run", valid_rows_only=True))
    taken = take_plan(open_desk(url), made.id, "run")
    assert list(taken.payments.rows) == list(made.payments.rows)
    assert (taken.payments.sha256, taken.payments.summary()) == (made.payments.sha256, made.payments.summary())
    assert taken.shown.sha256 == made.shown.sha256


def test_a_run_key_that_invoices_took_since_it_was_planned_pays_nothing(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """While its plan waited for an approval, say; from then on neither could have been started again."""
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    made = make_plan(desk, PayRequest(sheet(tmp_path, *ROWS), "november"))
    invoices = tmp_path / "invoices.csv"
    invoices.write_text(
        "row_ref,payment_method,amount,currency,product_name,customer_ref_id\ni-1,on_line,120,USDT,Tea,ann\n"
    )
    collect_and_write(open_desk(sandbox.base_url), invoices, "november", tmp_path / "out")
    with pytest.raises(InputError, match="belongs to invoices"):
        payouts.commit_payouts(desk, made)
    assert desk.ledger.orders() == []
    assert collect_and_write(desk, invoices, "november", tmp_path / "out")["counts"] == {"waiting": 1}
    [(name, link)] = expected_receipts(desk.ledger).items()
    again = {"payment_method": "on_line", "currency": "USDT", "product_name": "Tea", "customer_ref_id": "ann"}
    with pytest.raises(InputError, match=f"{name} already stands for something else here"):
        send_operation(desk, Pay(request_id=name, amount="120", **again))
    assert expected_receipts(desk.ledger)[name] == link, "the way to pay it is kept"


@pytest.mark.both_databases
def test_the_same_payments_are_one_plan_and_others_are_another(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    first = make_plan(desk, PayRequest(sheet(tmp_path, *ROWS), "run"))
    assert make_plan(desk, PayRequest(sheet(tmp_path, *reversed(ROWS), name="turned.csv"), "run")).id == first.id
    assert make_plan(desk, PayRequest(sheet(tmp_path, *ROWS), "run", partly=True)).id != first.id
    assert make_plan(desk, PayRequest(sheet(tmp_path, ROWS[0]), "run")).id != first.id
    assert make_plan(desk, PayRequest(sheet(tmp_path, *ROWS), "run"), keep=False).id == ""


def test_a_plan_of_another_time_is_not_carried_out(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    desk = open_desk(start_sandbox().base_url)
    request = PayRequest(sheet(tmp_path, *ROWS), "run")
    before = make_plan(desk, request)
    adopt(desk, {}, payouts={"max_per_day": {"USDT_TRC20": "100"}})
    for step in (agreeing.propose_payouts, payouts.commit_payouts):
        with pytest.raises(PolicyChanged, match="another policy came into force"):
            step(desk, before)
    again = make_plan(desk, request)
    assert again.id != before.id
    begin_epoch(desk.ledger, desk.token, "a test")
    with pytest.raises(PolicyChanged, match="found to be restored"):
        payouts.commit_payouts(desk, again)
    assert desk.ledger.run("run") is None
    payouts.commit_payouts(desk, make_plan(desk, request))


def test_a_plan_that_was_changed_or_is_of_another_run_is_not_taken(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    url = start_sandbox().base_url
    desk = open_desk(url)
    made = make_plan(desk, PayRequest(sheet(tmp_path, *ROWS), "run"))
    other = make_plan(desk, PayRequest(sheet(tmp_path, ("c", "9", "12345670009"), name="c.csv"), "other"))
    with pytest.raises(InputError, match="is of run run, not of run other"):
        take_plan(desk, made.id, "other")
    rows, plans = schema.payout_plan_rows, schema.payout_plans
    [content] = [row.content for row in desk.ledger.read(rows.select().where(rows.c.plan_id == other.id))]
    change(desk, update(rows).where(rows.c.plan_id == made.id).values(content=content))
    with pytest.raises(InputError, match="are kept no more"):
        take_plan(open_desk(url), made.id, "run")
    change(desk, delete(rows).where(rows.c.plan_id == made.id))
    assert make_plan(open_desk(url), PayRequest(sheet(tmp_path, *ROWS), "run")).id != made.id  # and is made anew
    [content] = [row.content for row in desk.ledger.read(plans.select().where(plans.c.id == other.id))]
    change(desk, update(plans).where(plans.c.id == made.id).values(content=content))
    with pytest.raises(InputError, match="this ledger has no plan"):
        take_plan(open_desk(url), made.id, "run")


def test_rows_of_a_plan_end_with_the_last_payload_of_their_run(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    url = start_sandbox().base_url
    desk = open_desk(url)
    request = PayRequest(sheet(tmp_path, *ROWS, ("c", "ten", "12345670003")), "run", valid_rows_only=True)
    made = make_plan(desk, request)
    assert take_plan(open_desk(url), made.id, "run").payments.left_out == made.payments.left_out
    [ids] = payouts.commit_payouts(desk, made)
    payouts.write_payout_results(desk, made, tmp_path / "out")
    rows = schema.payout_plan_rows.select()
    assert len(desk.ledger.read(rows)) == 1
    execution.send_orders(desk, "run", ids)
    execution.follow_orders(desk, "run", ids, 20)
    payouts.write_payout_results(desk, made, tmp_path / "out")
    assert desk.ledger.read(rows) == []
    assert "Example Person" not in json.dumps(dict(kept_plan(desk.ledger, made.id).content))


def test_rows_of_a_plan_that_never_began_end_after_some_weeks(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    make_plan(desk, PayRequest(sheet(tmp_path, *ROWS), "run"))
    for days, left in ((34, 1), (2, 0)):
        clock_of(desk).move(days * 86_400)
        night(desk, tmp_path / str(days))
        assert len(desk.ledger.read(schema.payout_plan_rows.select())) == left
