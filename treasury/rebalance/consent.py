"""Consent to a rebalancing: a person's yes under the policy in force, and what makes its plan out of date."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

from treasury.errors import InputError, WaitingForYes
from treasury.ledger import obligations
from treasury.ledger.approved_plans import approved_by
from treasury.ledger.debits import NOT_COUNTED
from treasury.ledger.intents import IntentRules
from treasury.ledger.plans import give_consent, has_consent
from treasury.orders.states import NEVER_RELEASED
from treasury.payments.desk import Desk
from treasury.payments.governing import Governing, governing
from treasury.planning.position import Snapshot
from treasury.planning.trades import TradePlan
from treasury.policy.people import Maker
from treasury.settings import os_user

KIND = "rebalancing"

TABLE = "conversions"
"""The table of the policy that limits trades."""

NOBODY_YET = "nobody said yes to a rebalancing under this policy yet; after this one a schedule goes on by itself"
"""Why a plan asks for an approval that no limit asks for."""


def trade_rules(
    desk: Desk,
    governed: Governing,
    plan: TradePlan,
    debits: Mapping[str, Decimal],
    maker: Maker | None = None,
    *,
    asked_here: bool = False,
) -> IntentRules:
    """Return what the trades of a plan are judged by; the first ones under a policy take an approval, whatever they
    come to, unless a person said yes to a rebalancing under it.

    `debits`: what approvals count; `asked_here`: a person at the command line is asked, and may be alone. Raises
    `WaitingForYes` where nobody besides its maker could approve it.
    """
    rules = governed.rules(desk, TABLE, debits, {})
    if rules.approving.asked or not plan.trades or has_consent(desk.ledger, governed.version, KIND):
        return rules
    people = governed.people
    if maker is not None and people.missing(people.needed(1, maker), maker) is not None:
        if asked_here:
            return rules
        raise WaitingForYes(KIND)
    return replace(rules, approving=replace(rules.approving, asked=1))


def say_yes(desk: Desk, version: str | None) -> None:
    """Record that the person at this command line said yes to a rebalancing under the policy that it was planned by.

    Raises `InputError` where another one came into force while they looked: they did not see what it allows.
    """
    if governing(desk).version != version:
        raise InputError("another policy came into force meanwhile; nothing was traded: look at the plan that it makes")
    give_consent(desk.ledger, version, KIND, os_user())


def note_yes(desk: Desk, run_key: str, version: str | None) -> None:
    """Record that those who approved a rebalancing that was recorded said yes to rebalancings under its policy."""
    names = [each.name for each in approved_by(desk.ledger, run_key)]
    if names and not has_consent(desk.ledger, version, KIND):
        give_consent(desk.ledger, version, KIND, ", ".join(names)[:MAX_NAMES])


MAX_NAMES = 100
"""Characters that the ledger keeps of who said yes."""


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
