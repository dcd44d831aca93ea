"""Reasons why a rebalancing may not be carried out as it was planned: what was recorded since then."""

from treasury.ledger import obligations
from treasury.ledger.day import NOT_COUNTED
from treasury.orders.states import NEVER_RELEASED
from treasury.payments.desk import Desk
from treasury.planning.position import Snapshot
from treasury.planning.trades import TradePlan

OLD_MS = 5 * 60_000
"""A plan older than this is planned again before it begins, to see whether it is still needed, ms."""


def is_doubtful(desk: Desk, plan: TradePlan, snapshot: Snapshot | None) -> bool:
    """Tell whether a plan that was agreed to is planned again before it begins: it is old, or payments were recorded,
    or left, since its snapshot that debit what it spends."""
    if snapshot is None:
        return False
    is_old = desk.ledger.now() - snapshot.at > OLD_MS
    spent = {trade.currency for trade in plan.trades}
    return is_old or not spent.isdisjoint(obligations.debited_since(desk.ledger, snapshot.at))


def why_stale(desk: Desk, run_key: str, plan: TradePlan, snapshot: Snapshot | None) -> str | None:
    """Why a round may not begin any more: conversions since its snapshot bring what it buys, or spend what it spends;
    None while it may."""
    if snapshot is None:
        return None
    counted = {each.request_id for each in snapshot.in_flight}
    bought = {trade.receive_currency for trade in (*plan.trades, *plan.later)}
    spent = {trade.currency for trade in plan.trades}
    for order in obligations.conversions_since(desk.ledger, snapshot.at):
        is_new = order.run_key != run_key and order.request_id not in counted
        is_made = order.state.value not in NOT_COUNTED or order.hold_kind in NEVER_RELEASED
        if is_new and is_made and (order.receive_currency in bought or order.currency in spent):
            is_bought = order.receive_currency in bought
            moves = f"bring {order.receive_currency}" if is_bought else f"spend {order.currency}"
            return (
                f"run {run_key}: conversions were recorded since it was planned that {moves}, too ({order.row_ref} of "
                f"run {order.run_key}); nothing was traded: start it again, and it is planned anew"
            )
    return None
