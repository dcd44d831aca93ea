"""The first queries of a run: they check account and ledger before money leaves.

They are signed, so they find a wrong key, unit or clock. They ask about payments that were not sent yet, so they also
find a ledger that is older than the service.
"""

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial

from treasury.concurrency.batches import batched
from treasury.errors import ConfigurationError, IllegalTransition, NotConnected, OutcomeUnknown, Refused
from treasury.ledger.debits import bounded_orders
from treasury.ledger.epoch import Standing
from treasury.ledger.holds import has_cooling
from treasury.ledger.intents import forget_absences
from treasury.ledger.kept_breaks import acceptances
from treasury.money import format_amount
from treasury.orders.payment_decisions import over_bound
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.payments.desk import Desk
from treasury.payments.governing import governing
from treasury.policy.limits import Limits
from treasury.provider.operation import SeenOrder
from treasury.provider.refusals import ACCOUNT_TROUBLE
from treasury.reconciliation.breaks import Acceptance, id_of_subject
from treasury.reconciliation.classes import ABOVE_BOUND
from treasury.texts import with_person

PROBES = 5
"""References that a run queries before its first send."""
ROUNDS = 2
"""How often they are queried when no answer comes; the client retries each query as well."""
AT_ONCE = 2_000
"""References of a first run that are in memory at once."""


def check_clock_before(desk: Desk, run_key: str, limits: Limits) -> None:
    """Check the clock before payments of a run are recorded, or judged again: their day and cooling time count by it.

    Raises `ConfigurationError`, or `Stopped` where nobody can tell. Of a run of which nothing waits nothing is checked.
    """
    waits = desk.ledger.run(run_key) is None or desk.ledger.order_ids(run_key, (State.PREPARED, State.HELD))
    if waits:
        desk.check_clock(waits_end=has_cooling(limits))


def check_before_sending(desk: Desk, run_key: str) -> str | None:
    """Ask the first queries of a run once each time it is held. Returns why nothing may be sent, or None.

    Raises `ConfigurationError` when the service refuses the account, or when its answer about a made-up reference is
    not one that this account's settings list as "no such order".
    """
    if run_key in desk.checked_runs:
        return None
    waiting = desk.ledger.ids_by_operation(run_key, (State.PREPARED,))
    if waiting:
        if desk.standing is Standing.NEW:
            desk.register_machine(run_key)
            problem = _ask_everything(desk, sorted(each for some in waiting.values() for each in some))
        else:
            problem = _probe(desk, waiting)
        if problem is not None:
            return problem
    desk.checked_runs.add(run_key)
    return None


def why_above_bound(desk: Desk, run_key: str) -> str | None:
    """Say which payment of a run debited more than its plan allowed for, unless a person accepted that; or None."""
    on_top = desk.account.rules.fee_on_top
    over = [(each, by) for each in bounded_orders(desk.ledger, run_key) if (by := over_bound(each, on_top)) is not None]
    accepted = acceptances(desk.ledger, desk.ledger.now()) if over else {}
    for order, by in over:
        break_id = id_of_subject(order.request_id)
        if not _is_accepted(accepted.get(break_id), by):
            accept = f"treasury accept {break_id} --by NAME --why TEXT"
            return (
                f"{order.row_ref} debited {format_amount(by)} {order.currency} more than the plan allowed for (its fee "
                "included): ask the service why. To pay the rest: treasury reconcile, then "
                f"{with_person(accept, is_listed=bool(governing(desk).people))}, then start the run again"
            )
    return None


def _is_accepted(newest: Acceptance | None, by: Decimal) -> bool:
    """Tell whether a person accepted that a payment debited so much more than its plan allowed for."""
    said = () if newest is None else (*newest.others, newest)
    return any(each.name == ABOVE_BOUND and by <= each.difference for each in said)


def _probe(desk: Desk, waiting: Mapping[str, Sequence[int]]) -> str | None:
    """Query a sample: the first and last orders, and random ones of every operation."""
    orders = desk.ledger.orders(ids=_choose(waiting))
    answers: list[dict[int, SeenOrder] | Exception] = []
    for _ in range(ROUNDS):
        answers = desk.run_concurrently(lambda order: _ask(desk, order, everywhere=False), orders)
        if any(not isinstance(answer, Exception) for answer in answers):
            break
    _hold_known(desk, orders, answers)
    return _judge(answers)


def _choose(waiting: Mapping[str, Sequence[int]]) -> list[int]:
    every = sorted(each for some in waiting.values() for each in some)
    chosen = {every[0], every[-1]}
    for some in waiting.values():
        if len(chosen) < PROBES:
            chosen.add(random.choice(some))  # noqa: S311 - nobody gains by guessing which
    while len(chosen) < min(PROBES, len(every)):
        chosen.add(random.choice(every))  # noqa: S311 - as above
    return sorted(chosen)


def _ask_everything(desk: Desk, waiting: Sequence[int]) -> str | None:
    """Query every reference, because this machine has never sent from this ledger."""
    answered = False
    for some in batched(waiting, AT_ONCE):
        orders = desk.ledger.orders(ids=some, states=(State.PREPARED,))
        answers = desk.run_concurrently(lambda order: _ask(desk, order, everywhere=True), orders, prefetch=True)
        if not answered and (problem := _judge(answers)) is not None:
            return problem
        answered = True
        absent = [order.id for order, answer in zip(orders, answers, strict=True) if answer == {}]
        desk.ledger.write(partial(forget_absences, ids=absent))
        if _hold_known(desk, orders, answers):
            break  # everything else is held, too, and asked about when a person releases it
    return None


def _ask(desk: Desk, order: Order, *, everywhere: bool) -> dict[int, SeenOrder] | Exception:
    """Return what the service shows of an order that was not sent, by generation; or the error of the query."""
    try:
        return desk.submission.known_at_service(order, everywhere=everywhere)
    except (NotConnected, OutcomeUnknown, Refused) as error:
        return error


def _hold_known(desk: Desk, orders: Sequence[Order], answers: Sequence[dict[int, SeenOrder] | Exception]) -> bool:
    """Hold the orders that the service knows, and begin an epoch: the ledger is older than the service."""
    known = [
        (order, answer) for order, answer in zip(orders, answers, strict=True) if isinstance(answer, dict) and answer
    ]
    for order, found in known:
        with suppress(IllegalTransition):  # Race: a person cancelled it meanwhile; every night asks about it, too
            desk.submission.hold_found(order, found, "asked before the run sends")
    if known:
        desk.begin_epoch(f"the service knows {known[0][0].request_id}, which this ledger has not sent")
    return bool(known)


def _judge(answers: Sequence[dict[int, SeenOrder] | Exception]) -> str | None:
    """Why nothing may be sent; None when at least one question was answered."""
    if not answers or any(not isinstance(answer, Exception) for answer in answers):
        return None
    refusals = [answer for answer in answers if isinstance(answer, Refused) and answer.code is not None]
    decided = [refusal for refusal in refusals if refusal.http_status < 500 and refusal.code != "429"]
    trouble = [refusal for refusal in decided if refusal.code in ACCOUNT_TROUBLE]
    if trouble and len(trouble) == len(answers):
        code = str(trouble[0].code)
        raise ConfigurationError(
            f"the service refuses this account's questions ({code} {trouble[0].message}): look at "
            f"{ACCOUNT_TROUBLE[code]}; nothing was sent"
        )
    if decided:
        first = decided[0]
        raise ConfigurationError(
            f"the service answers a question about an order that it cannot know with code {first.code} "
            f"({first.message}): if that is how it says that there is no such order, treasury doctor --prove says "
            "which line of the settings to write; nothing was sent"
        )
    return f"the service did not answer a question ({answers[0]}), so nothing was sent: start the run again later"
