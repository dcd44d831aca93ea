"""The sweep: queries the service about everything the ledger holds, and applies the answers to it."""

import contextlib
import functools
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import Connection

from treasury.cards.provisioning import find_card_user
from treasury.concurrency.batches import batched
from treasury.errors import (
    ConfigurationError,
    IllegalTransition,
    InputError,
    InvalidFields,
    NotConnected,
    OutcomeUnknown,
    Refused,
    RunHeld,
    Stopped,
)
from treasury.ledger import closing, sweeps
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.kept_breaks import known_breaks
from treasury.ledger.made_reports import last_whole_report
from treasury.ledger.personal import Words
from treasury.ledger.plans import forget_plan_rows
from treasury.ledger.policies import policy_in_force
from treasury.ledger.receipts import brought_currencies
from treasury.ledger.replacements import KEPT_DAYS, forget_old_contents
from treasury.ledger.seen_card_users import card_users, saw_card_user
from treasury.ledger.snapshots import address_hash, asked_receipts
from treasury.ledger.statement_lines import kept_lines
from treasury.masking import mask
from treasury.nights.notified import take_up_all
from treasury.orders.records import Order
from treasury.payments.desk import Desk
from treasury.policy.tolerances import ByAge
from treasury.provider.fields import asset_code, is_blank
from treasury.provider.funds import PartnerBalance
from treasury.provider.operation import Reply, SeenOrder
from treasury.provider.orders import TransactionRecord
from treasury.reconciliation.scope import Scope
from treasury.sending.stop_loss import StopLoss
from treasury.texts import cut_text


def ends_of(key: LedgerKey, reply: Reply) -> dict[str, str | None]:
    """Return `to` and `sender` of a transaction that came in, by its details (public fact 4.1, `extra_info`)."""
    details = (reply.details or {}) if isinstance(reply, TransactionRecord) else {}
    sender = _text(details, "sourceAddress")
    to = address_hash(key, _text(details, "destinationAddress"), _text(details, "destinationTag"))
    return {"to": to, "sender": None if sender is None else mask(cut_text(sender))}


def _text(details: Mapping[str, Any], name: str) -> str | None:
    value = details.get(name)
    return None if is_blank(value) or isinstance(value, dict | list) else str(value)


HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

GROUP = 50
"""Answers that are written together."""

PART = 2_000
"""Questions of a part, which one process claims. Their ids have one quotient, so every start makes the same parts."""

PARTS_PER_TASK = 10
"""Parts that one Prefect task asks, one after the other."""

READ = 200
"""Questions that are read from the ledger together; asking waits meanwhile."""

RESUMED_MS = 12 * HOUR_MS
"""A sweep that was cut off longer ago is not resumed, because its first answers are too old."""


def check_scope(desk: Desk, scope: Scope) -> Scope:
    """Return a scope that a person named. Raises `InputError` for a run that the ledger does not know, or a currency
    that no service writes so: a report of nothing would say of a mistyped name that all is well."""
    if scope.run_key is not None and desk.ledger.run(scope.run_key) is None:
        raise InputError(f"the ledger knows no run {scope.run_key} (`treasury runs` lists them)")
    if scope.currency is not None:
        try:
            asset_code(scope.currency)
        except ValueError as error:
            raise InputError(f"the currency {error} (got {scope.currency!r})") from None
    return scope


def start_or_resume_sweep(desk: Desk, scope: Scope, *, ask_all: bool = False) -> int:
    """Start a sweep over everything in this scope, or resume one that was cut off; returns its id.

    It covers open and final orders, quotes that were lost or never confirmed, and, unless it is narrowed to a run or a
    currency, card users. The window does not exclude open orders. Balances are read first. A sweep of everything asks
    about old orders as often as the policy in force says, unless it is to `ask_all`; those of open breaks are asked.
    """
    ledger = desk.ledger
    take_up_all(desk)
    forget_old_contents(ledger)
    forget_plan_rows(ledger, ledger.now() - KEPT_DAYS * DAY_MS)
    since = None if scope.window_days is None else ledger.now() - scope.window_days * DAY_MS
    is_wide = scope.run_key is None and scope.currency is None
    users, receipts = (card_users(ledger), asked_receipts(ledger)) if is_wide else ([], ())
    told = sweeps.ends_told(ledger)
    is_due = None if ask_all or not scope.is_whole else _due(desk, told)
    with ledger.each_order(scope.run_key) as orders:
        asked = (
            order
            for order in orders
            if (since is None or order.final_at is None or order.final_at >= since)
            and (is_due is None or is_due(order))
            and scope.currency in (None, order.currency, order.receive_currency)
        )
        rows = sweeps.sides_of(ledger, asked, users, receipts, told)
        sweep_id = sweeps.record_sweep(ledger, scope, rows, since=ledger.now() - RESUMED_MS)
    desk.stop_losses.pop(_stop_loss_name(sweep_id), None)
    _read_balances(desk, sweep_id, scope, "before")
    return sweep_id


def _due(desk: Desk, told: Container[int]) -> Callable[[Order], bool] | None:
    """Return the rule of the policy in force for which orders are asked about; None where it asks about all.

    `told`: orders whose end changed since the last report of everything, which this one tells.
    """
    by_age = _by_age(desk)
    if by_age is None:
        return None
    now, last = desk.ledger.now(), last_whole_report(desk.ledger)
    named = {known.found.request_id for known in known_breaks(desk.ledger).values()}

    def is_due(order: Order) -> bool:
        final_at = order.final_at if order.state.is_final else None
        if final_at is None or order.request_id in named or order.id in told:
            return True
        return by_age.is_due(order.id, final_at, last, now)

    return is_due


def _by_age(desk: Desk) -> ByAge | None:
    adopted = policy_in_force(desk.ledger)
    return None if adopted is None else adopted.policy.reconciliation.by_age


def stored_sweep(desk: Desk, scope: Scope) -> int:
    """The last reported sweep of this scope, and of no other. Raises `InputError` when there is none."""
    found = sweeps.last_reported_sweep(desk.ledger, scope)
    if found is None:
        raise InputError("there are no stored answers to report from: run `treasury reconcile` without --offline first")
    return found.id


def open_parts(desk: Desk, sweep_id: int) -> dict[int, list[int]]:
    """Ids of the questions that are still open, by the number of their part; none once the report was made."""
    if sweeps.sweep(desk.ledger, sweep_id).as_of is not None:
        return {}
    ids = sweeps.open_questions(desk.ledger, sweep_id, desk.account.rules.debited_when)
    return {number: list(part) for number, part in groupby(ids, lambda each: (each - 1) // PART)}  # ids begin with 1


def likely_questions(desk: Desk, scope: Scope) -> int:
    """Return about how many questions a sweep of this scope has: its orders, however old."""
    return desk.ledger.count_orders(scope.run_key)


HELD_SECONDS = 0.2
"""How long a part that somebody else asks is left alone before it is looked at again."""


def ask_parts(desk: Desk, parts: Mapping[int, Sequence[int]], start: int, patience_seconds: float | None = None) -> int:
    """Ask what is still open of these parts, one after the other; returns how many questions are answered in the end.

    `start`: when this start made the parts, Unix ms: what could not be asked since then is not tried again, and its
    parts give up together when nobody answers. A part that another process, or another thread, is asking is left to
    it; with `patience_seconds` it is waited for so long, and then raises `RunHeld`.
    """
    for number, ids in parts.items():
        try:
            _ask_part(desk, number, ids, start, patience_seconds or 0)
        except RunHeld:
            if patience_seconds is not None:
                raise
    return sum(len(ids) - len(sweeps.still_open(desk.ledger, ids)) for ids in parts.values())


def has_open(desk: Desk, parts: Mapping[int, Sequence[int]], start: int) -> bool:
    """Tell whether this start has not tried all questions of these parts yet."""
    return any(_not_tried(desk, ids, start) for ids in parts.values())


def _not_tried(desk: Desk, ids: Sequence[int], start: int) -> list[int]:
    return sweeps.still_open(desk.ledger, ids, start, desk.account.rules.debited_when)


def _ask_part(desk: Desk, number: int, ids: Sequence[int], start: int, patience_seconds: float) -> None:
    """Claim a part, as a run is held, by a lock that ends with its process; ask what is still open of it."""
    name, until = f"sweep part {number}", desk.clock.monotonic() + patience_seconds
    while True:
        holder = "another task of this process"
        try:
            with desk.ledger.hold(name) as is_ours:
                if is_ours:
                    # Race: whoever held the part before may have asked some of it since this start read what is open.
                    ask_orders(desk, _not_tried(desk, ids, start), start)
                    return
        except RunHeld as held:
            holder = held.holder
        if desk.clock.monotonic() >= until:
            raise RunHeld(name, holder)
        desk.clock.sleep(HELD_SECONDS)


def ask_orders(desk: Desk, ids: Sequence[int], start: int = 0) -> int:
    """Ask these questions of a sweep and record the answers; returns how many could be asked.

    Answers are applied to the ledger in groups; the questions of a group that was cut off are asked again. Nothing that
    moves money is sent.
    """
    answers = _Answers(desk)

    def ask(asked: tuple[sweeps.Question, Order | None]) -> bool:
        question, order = asked
        began = desk.ledger.now()
        seen, side = _ask(desk, question, order, _stop_loss(desk, question.sweep_id, start))
        # Race: its run may have sent it since the sweep began, as one that was recorded, or released, before.
        ours = None if seen is None else sweeps.sent_since(desk.ledger, question, began)
        answers.take(_Answered(question, order, seen, side, began, ours))
        return bool(side["answer"] != "failed")

    could = desk.run_concurrently(ask, _questions(desk, ids), prefetch=True)
    answers.write()
    return sum(could)


def _questions(desk: Desk, ids: Sequence[int]) -> Iterator[tuple[sweeps.Question, Order | None]]:
    """Questions with their orders, read a few at a time while others are being asked."""
    for some in batched(ids, READ):
        asked = sweeps.questions(desk.ledger, some)
        owners = [question.order_id for question in asked if question.order_id is not None]
        # Race: a run that sends meanwhile may have replaced the quote of an order; it has another reference then.
        orders = {(order.id, order.request_id): order for order in desk.ledger.orders(ids=owners)}
        yield from ((question, orders.get((question.order_id or 0, question.request_id))) for question in asked)


def _stop_loss(desk: Desk, sweep_id: int, start: int) -> StopLoss:
    """The stop-loss of a start of a sweep: one for all parts that this process asks."""
    name = _stop_loss_name(sweep_id, start)
    return desk.stop_losses.get(name) or desk.stop_losses.setdefault(name, StopLoss())


def _stop_loss_name(sweep_id: int, start: int = 0) -> str:
    return f"sweep {sweep_id}, start {start}"  # no run key holds a space


class _Answered(NamedTuple):
    """A question that was asked, and what the service shows. `began`: when it began to be asked, Unix ms; `ours`: the
    ledger's side, where that is another one by now."""

    question: sweeps.Question
    order: Order | None
    seen: SeenOrder | None
    side: dict[str, Any]
    began: int
    ours: str | None


class _Answers:
    """Collects answers and writes them in groups. The thread that fills a group writes it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._guard = threading.Lock()
        self._group: list[_Answered] = []

    def take(self, answered: _Answered) -> None:
        """Take the answer to a question; write them all when a group is full."""
        with self._guard:
            self._group.append(answered)
            if len(self._group) < GROUP:
                return
        self.write()

    def write(self) -> None:
        """Write the answers taken so far: steps of orders and the service's side, in one transaction."""
        with self._guard:
            group, self._group = self._group, []
        if group:
            texts = {each.question.id: sweeps.side_text(each.side) for each in group}
            self._desk.ledger.write(lambda connection: self._record(connection, group, texts))

    def _record(self, connection: Connection, group: Sequence[_Answered], texts: dict[int, str]) -> None:
        for _, order, seen, side, began, _ in group:
            if order is not None and side["answer"] != "failed" and not self._desk.submission.is_current(order, seen):
                # Race: the order's own run may have moved it since this answer, and its newer state wins.
                with contextlib.suppress(IllegalTransition):
                    self._desk.submission.apply(order, seen, began)
        ours = {each.question.id: each.ours for each in group if each.ours is not None}
        sweeps.record_answers(connection, texts, self._desk.ledger.now(), ours)


def end_sweep(desk: Desk, sweep_id: int) -> None:
    """Read the balances again and draw the statement. From then on the report is the same whenever it is made."""
    found = sweeps.sweep(desk.ledger, sweep_id)
    if found.as_of is None:
        # Race: what a run pays from here on may be in the statement drawn below, and not in the balances read here.
        read_from = closing.last_step(desk.ledger)
        _read_balances(desk, sweep_id, found.scope, "after")
        _read(desk, sweep_id, closing.begin_again(desk.ledger, sweep_id), "after")
        by_age = _by_age(desk) if found.scope.is_whole else None
        rule = None if by_age is None else str(by_age)
        closing.close_sweep(desk.ledger, sweep_id, found.scope, desk.account.rules, rule, read_from)


def _ask(
    desk: Desk, question: sweeps.Question, order: Order | None, stop_loss: StopLoss
) -> tuple[SeenOrder | None, dict[str, Any]]:
    """Ask one question: what the service shows, and its side as it is stored."""
    if stop_loss.why is not None:
        return None, {"answer": "failed", "seen_reason": stop_loss.why}
    try:
        if question.operation == sweeps.CARD_USER:
            return None, _ask_card_user(desk, question.side["user_xid"])
        if order is None:
            seen, reply = desk.submission.query_reference_with_reply(question.operation, question.request_id)
        else:
            seen, reply = desk.submission.query_with_reply(order)
    except (NotConnected, Refused, OutcomeUnknown) as error:
        stop_loss.could_not_ask(error)
        return None, {"answer": "failed", "seen_reason": _words(desk, question, order).masked(_said(question, error))}
    except (ConfigurationError, Stopped):
        raise
    except Exception as error:  # an unexpected answer fails one question, never the whole sweep
        return None, {"answer": "failed", "seen_reason": f"the answer could not be read: {type(error).__name__}"}
    stop_loss.reached()
    if seen is None or reply is None:
        return None, {"answer": "absent"}
    side = service_side(seen, reply, lambda: _words(desk, question, order))
    if question.operation == sweeps.RECEIPT:  # what is matched with invoices; the answer itself is kept without either
        side |= {name: value for name, value in ends_of(desk.ledger.key, reply).items() if value is not None}
    by_quote = order is not None and order.request_id == order.confirmation
    if seen.request_id not in (None, question.request_id) and not by_quote:
        side["seen_request_id"] = _words(desk, question, order).masked(str(seen.request_id))
    return seen, side


def _words(desk: Desk, question: sweeps.Question, order: Order | None) -> Words:
    return desk.ledger.words_of_quote(question.request_id) if order is None else desk.ledger.words(order)


def _said(question: sweeps.Question, error: Exception) -> str:
    """Why a question failed. For a card user the service's text is left out, since it cannot be masked here."""
    if question.operation != sweeps.CARD_USER or not isinstance(error, Refused):
        return str(error)
    return f"the service answered code {error.code}" if error.code else f"the service answered HTTP {error.http_status}"


def _ask_card_user(desk: Desk, user_xid: str) -> dict[str, Any]:
    user = find_card_user(desk, user_xid)
    if user is None:
        return {"answer": "absent"}
    saw_card_user(desk.ledger, user_xid, user)
    return {"answer": "found", "seen_kyc_status": user.kyc_status, "seen_kyc_level": user.kyc_level}


def service_side(seen: SeenOrder, reply: Reply, find_words: Callable[[], Words]) -> dict[str, Any]:
    """The service's side of one order, its texts masked; `raw` is its answer with everything personal hidden."""

    @functools.cache
    def words() -> Words:
        return find_words().also(seen.order_no)

    return {
        "answer": "found",
        "status": None if seen.status is None else int(seen.status),
        "order_no": seen.order_no,
        "seen_currency": seen.currency,
        "seen_amount": seen.amount,
        "seen_receive_currency": seen.receive_currency,
        "seen_receive_amount": seen.receive_amount,
        "seen_fee": seen.fee,
        "seen_fee_currency": seen.fee_currency,
        "seen_rate": seen.rate,
        "arrive_amount": seen.arrive_amount,
        "unreadable": seen.unreadable,
        "seen_reason": None if seen.reason is None else words().masked(seen.reason),
        "raw": reply.redacted(lambda text: words().detail(text)),
    }


def watched_currencies(desk: Desk, scope: Scope = Scope(), sweep_id: int | None = None) -> list[str]:
    """Return the currencies whose balances a report of this scope reads; those of statements up to this sweep."""
    adopted = policy_in_force(desk.ledger)
    named = set() if adopted is None else {*adopted.policy.assets, *filter(None, [adopted.policy.base_asset])}
    named |= {line.currency for line in kept_lines(desk.ledger, sweep_id)} | brought_currencies(desk.ledger, sweep_id)
    return closing.balance_currencies(desk.ledger, scope, named)


def read_balances(desk: Desk, currencies: Sequence[str]) -> dict[str, closing.ShownBalance | closing.Unread]:
    """Ask the service for these balances; currency -> what it shows, or why it could not be read."""
    return dict(zip(currencies, desk.run_concurrently(lambda each: _read_balance(desk, each), currencies), strict=True))


def _read_balances(desk: Desk, sweep_id: int, scope: Scope, moment: str) -> None:
    _read(desk, sweep_id, watched_currencies(desk, scope, sweep_id), moment)


def _read(desk: Desk, sweep_id: int, currencies: Sequence[str], moment: str) -> None:
    closing.record_balances(desk.ledger, sweep_id, moment, read_balances(desk, currencies))


def _read_balance(desk: Desk, currency: str) -> closing.ShownBalance | closing.Unread:
    """Return the balance of a currency, held amounts included; or why it could not be read."""
    try:
        read = desk.client.read(PartnerBalance(currency=currency))
    except (Refused, InvalidFields) as refusal:
        return closing.Unread(str(refusal), refused=True)
    except (NotConnected, OutcomeUnknown) as error:
        return closing.Unread(str(error), refused=False)
    whole = read.balance if read.balance is not None else read.available
    if whole is None:
        return closing.Unread("the answer shows no balance", refused=True)
    return closing.ShownBalance(whole, None if read.balance is None else read.frozen)
