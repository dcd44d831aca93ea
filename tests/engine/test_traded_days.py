"""Conversions count in the limits of the day on which they leave, also where they were recorded on another one."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine.funded import BTC, HELD, OTHER, PAYOUTS, ROWS, convert, plan_round, record, record_round
from tests.engine.judged import adopt
from tests.engine.rounds import policy
from tests.engine.runs import sheet
from tests.moved_clock import clock_of
from treasury.call.calls import send_operation, submit_operation
from treasury.errors import LimitExceeded
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.payments.desk import Desk
from treasury.provider.conversion import ConversionExecute, ConversionQuote

pytestmark = pytest.mark.both_databases


def quoted(desk: Desk, name: str, amount: str) -> ConversionExecute:
    """The confirmation of a quote that is asked for now."""
    asked = ConversionQuote(symbol="ETH-USDT", amount=Decimal(amount), currency="ETH", side="SELL", xid=name)
    return ConversionExecute(quote_id=str(send_operation(desk, asked)["data"]["quoteId"]))


def test_a_conversion_that_waited_over_midnight_counts_on_the_day_on_which_it_leaves(
    open_desk: Callable[..., Desk], start_sandbox: Any
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, conversions={"max_turnover": {"ETH": "1"}})
    clock_of(desk).move(16 * 3600 - 10)  # ten seconds before midnight
    first = quoted(desk, "one", "0.6")
    stop_sending(desk.ledger, "Ada Example", "a look first")
    assert submit_operation(desk, first).state.outcome == "not_sent"
    lift_stop(desk.ledger, "Ada Example")
    clock_of(desk).move(15)
    assert submit_operation(desk, first).state.outcome in ("settled", "in_progress")
    with pytest.raises(LimitExceeded, match="max_turnover"):
        submit_operation(desk, quoted(desk, "two", "0.6"))


def test_what_recorded_conversions_are_to_bring_counts_in_the_turnover_of_their_day(
    open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox(balances=HELD).base_url)
    tail = PAYOUTS + '[conversions.max_turnover]\nUSDT_TRC20 = "1500"\n'
    rules, file, other = policy(tmp_path, tail=tail, BTC=BTC), sheet(tmp_path, *ROWS), tmp_path / "other.csv"
    sheet(tmp_path, *OTHER).rename(other)
    file = sheet(tmp_path, *ROWS)
    record(desk, file, rules)
    first = plan_round(desk, file, rules)
    assert first is not None
    assert record_round(desk, first, file, rules)  # about 1,000 USDT_TRC20, and the process ends
    record(desk, other, rules, "other")
    assert "max_turnover" in str(convert(desk, other, rules, "other"))
    assert desk.ledger.orders(run_key="other.fund") == []
