"""A person's yes to a rebalancing under the policy in force: at the command line, or by approving the first one."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

from treasury.errors import InputError, WaitingForYes
from treasury.ledger.approved_plans import approved_by
from treasury.ledger.intents import IntentRules
from treasury.ledger.trade_plans import give_consent, has_consent
from treasury.payments.desk import Desk
from treasury.payments.governing import Governing, governing
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
