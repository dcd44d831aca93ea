"""Executes a run, also in parts: sends prepared orders, queries unknown ones, follows accepted ones."""

import contextlib
import functools
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import takewhile
from typing import TypedDict

from treasury.concurrency.batches import batched
from treasury.errors import (
    ApprovalNeeded,
    ChangedByHand,
    ConfigurationError,
    IllegalTransition,
    InputError,
    InvalidFields,
    NotConnected,
    NotJudged,
    OutcomeUnknown,
    RecoveryRuns,
    Refused,
    Stopped,
    TreasuryError,
)
from treasury.ledger.intents import judge_again
from treasury.ledger.ledger import Ledger
from treasury.ledger.quotes import last_quote
from treasury.money import format_amount
from treasury.orders.payment_decisions import bounds_of, has_expired, over_bound, quote_problem
from treasury.orders.quoting import QUOTED
from treasury.orders.records import Order, Quote
from treasury.orders.states import OPEN, State
from treasury.payments.desk import Desk
from treasury.payments.governing import rules_of_run
from treasury.payments.offers import why_dearer
from treasury.payments.preflight import check_before_sending, why_above_bound
from treasury.provider.pacing import FOLLOW
from treasury.sending.stop_loss import StopLoss

DIRECT_ROWS = 5_000
QUOTED_ROWS = 1_000
"""Rows of a quoted part: few enough that all are quoted and confirmed long before the first quote ends."""


class Part(TypedDict):
    """Orders of a run that one task executes. Plain values, because Prefect passes it between tasks."""

    run_key: str
    rows: str
    """Which ones, for people: `1-1000` counts the orders of its kind in the sequence of the plan."""
    quoted: bool
    ids: list[int]


def split_run(desk: Desk, run_key: str, ids: Sequence[int]) -> list[Part]:
    """These orders of a run in parts, in the sequence they were planned; direct ones first."""
    wanted = set(ids)
    open_states = (State.PREPARED, *OPEN)
    found = desk.ledger.ids_by_operation(run_key, open_states)
    parts = []
    for quoted, size in ((False, DIRECT_ROWS), (True, QUOTED_ROWS)):
        every = sorted(each for name, some in found.items() if (name in QUOTED) is quoted for each in some)
        chosen = [each for each in every if each in wanted]
        for number, some in enumerate(batched(chosen, size)):
            first = number * size + 1
            rows = f"{first}-{first + len(some) - 1}"
            parts.append(Part(run_key=run_key, rows=rows, quoted=quoted, ids=list(some)))
    return parts


LOG = logging.getLogger("treasury")

LIFE_PARTS = 3
"""Quotes of a part are fetched during the first third (one of so many parts) of the first quote's life."""
NOTHING_LEFT = (InvalidFields, NotJudged, ChangedByHand)
"""It could not be built, a new day began, or somebody wrote into the ledger."""
ORDERS_PER_TASK = 2_000
"""Orders that one Prefect task carries out."""


def open_orders(desk: Desk, run_key: str, row_refs: Iterable[str] | None = None) -> list[int]:
    """Ids of the orders of a run that are still to be sent, queried or followed."""
    states = (State.PREPARED, *OPEN)
    return desk.ledger.order_ids(run_key, states, row_refs)


RUN_KEY = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
"""A run key as a regular expression: it serves as a folder name."""


def check_run_key(run_key: str) -> str:
    """Return the run key if it can serve as a folder name. Raises `InputError`."""
    if not re.fullmatch(RUN_KEY, run_key):
        raise InputError(
            "a run key is up to 100 letters, digits, dots, dashes and underscores, "
            f"like payroll-2026-11 (got {run_key!r})"
        )
    return run_key


def send_orders(desk: Desk, run_key: str, ids: Sequence[int]) -> int:
    """Send these orders of a run, each at most once; returns how many the service has now.

    Raises `RunHeld`, `InputError` for orders of another run or ledger, and `ConfigurationError` when the ledger cannot
    be written, or the service does not know us: then nothing more is sent. The failure of one order does not stop the
    others.
    """
    with desk.hold(run_key):
        stop_loss = _get_ready(desk, run_key)
        orders = desk.ledger.orders(run_key=run_key, ids=ids)
        if len(orders) < len(set(ids)):
            raise InputError(f"run {run_key} does not have all of these orders in this ledger; nothing was sent")
        done = desk.run_concurrently(lambda order: _send(desk, order, stop_loss), orders)
        desk.check_not_aborted(run_key)
    return sum(order.state.is_open or order.state.is_final for order in done)


def ask_before_converting(desk: Desk, run_key: str) -> None:
    """Ask about the payments of a run before anything is converted for them, as they are asked about before they leave.

    Where the ledger may know less than the service, they may have been paid: those that the service knows are held.
    Raises as `send_orders`.
    """
    with desk.hold(run_key):
        stop_loss = _get_ready(desk, run_key)
        orders = desk.ledger.orders(run_key=run_key, states=(State.PREPARED,)) if stop_loss.why is None else ()
        doubtful = [order for order in orders if order.absences_needed]
        desk.run_concurrently(lambda order: _carefully(desk, order, desk.submission.ask_before_sending), doubtful)


def ask_first_questions(desk: Desk, run_key: str) -> None:
    """Ask the first questions of a run that is not going to send. Raises `ConfigurationError` as `send_orders`."""
    with desk.hold(run_key):
        _get_ready(desk, run_key)


def why_stopped(desk: Desk, run_key: str) -> str | None:
    """Why the stop-loss of a run sends nothing more in this start; None while it does."""
    return _stop_loss(desk, run_key).why


def fetch_quotes(desk: Desk, run_key: str, ids: Sequence[int]) -> int:
    """Ask for the quotes of these orders, and confirm none; returns how many have one. Raises as `send_orders`.

    It ends before the first quote has lived a third of its life. Orders without a quote by then, and orders that have
    to be queried first, are left to `send_orders`.
    """
    with desk.hold(run_key):
        stop_loss = _get_ready(desk, run_key)
        orders = desk.ledger.orders(run_key=run_key, ids=ids, states=(State.PREPARED,))
        ready = (order for order in orders if order.operation in QUOTED and not order.absences_needed)
        time_left = FetchTime(desk.ledger)
        found = desk.run_concurrently(
            lambda order: _fetch(desk, order, stop_loss, time_left), takewhile(time_left.is_left, ready)
        )
        desk.check_not_aborted(run_key)
    quotes = [quote for quote in found if quote is not None]
    _log_quotes(quotes)
    return len(quotes)


def quote_problems(desk: Desk, ids: Sequence[int]) -> list[str]:
    """Why the newest quotes of these orders must not be confirmed, in words; nothing for one that may, or has none."""
    found = []
    for order in desk.ledger.orders(ids=ids, states=(State.PREPARED,)):
        quote = last_quote(desk.ledger, order)
        if quote is None:
            continue
        bounds = bounds_of(desk.ledger.payload(order), order.operation, desk.account.rules.fee_on_top)
        problem = quote_problem(quote, bounds, desk.ledger.now())
        LOG.info("quote of %s: %s", order.row_ref, problem or "inside its bounds")
        found += [] if problem is None else [problem]
    return found


def _log_quotes(quotes: Iterable[Quote]) -> None:
    """Log the rates and fees of quotes, lowest and highest of each pair."""
    pairs: dict[str, list[Quote]] = {}
    for quote in quotes:
        pairs.setdefault(f"{quote.pay_currency}-{quote.receive_currency}", []).append(quote)
    for pair, some in sorted(pairs.items()):
        rates = _range([quote.rate for quote in some if quote.rate is not None])
        fees = _range([quote.fee for quote in some if quote.fee is not None])
        LOG.info("%d quotes %s: rate %s; fee %s", len(some), pair, rates or "not shown", fees or "none")


def _range(amounts: Sequence[Decimal]) -> str:
    ends = sorted({min(amounts), max(amounts)}) if amounts else []
    return " to ".join(format_amount(each) for each in ends)


class FetchTime:
    """How long quotes of a part may be fetched: one of `LIFE_PARTS` parts of the first one's life."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._until: float | None = None

    def is_left(self, _: Order) -> bool:
        """Tell whether another quote may be asked for."""
        return self._until is None or self._ledger.now() < self._until

    def start(self, quote: Quote) -> None:
        """Count from the first quote on; later ones change nothing."""
        if self._until is None:
            now = self._ledger.now()
            self._until = float("inf") if quote.expires_at is None else now + (quote.expires_at - now) / LIFE_PARTS


def _get_ready(desk: Desk, run_key: str) -> StopLoss:
    """Check clock and account before a run sends. Returns the run's stop-loss, tripped if nothing may be sent."""
    desk.check_not_aborted(run_key)
    desk.check_windows()
    desk.check_clock()
    judge_again(desk.ledger, run_key, rules_of_run(desk, run_key))
    stop_loss = _stop_loss(desk, run_key)
    problem = why_above_bound(desk, run_key) or check_before_sending(desk, run_key)
    if problem is not None:
        stop_loss.trip(problem)
    return stop_loss


def _fetch(desk: Desk, order: Order, stop_loss: StopLoss, time_left: FetchTime) -> Quote | None:
    """Fetch the quote of one order; None when none came, or the stop-loss or the time ended the fetching."""
    if stop_loss.why is not None or order.run_key in desk.aborted_runs:
        return None
    quotes: list[Quote] = []

    def ask(order: Order) -> Order:
        fetched = desk.submission.fetch_quote(order)
        quotes.extend([] if fetched.quote is None else [fetched.quote])
        return fetched.order

    try:
        asked = _carefully(desk, order, ask)
    except Stopped as stopped:
        stop_loss.trip(str(stopped))
        return None
    stop_loss.count_quote(asked, came=bool(quotes))
    quote = next(iter(quotes), None)
    if quote is None or has_expired(quote, desk.ledger.now()):
        return None  # `send_orders` replaces the quote of an earlier start, after a query whether it was paid
    time_left.start(quote)
    return quote


def _stop_loss(desk: Desk, run_key: str) -> StopLoss:
    """The run's stop-loss: one for all its chunks, new at each start."""
    if run_key not in desk.stop_losses:
        run = desk.ledger.run(run_key)
        desk.stop_losses[run_key] = StopLoss.of_plan({} if run is None else run.plan)
    return desk.stop_losses[run_key]


def _send(desk: Desk, order: Order, stop_loss: StopLoss) -> Order:
    if order.run_key in desk.aborted_runs:
        return order
    if stop_loss.why is not None:
        return desk.ledger.note(order, reason=f"the run was stopped: {stop_loss.why}")
    try:
        sent = _carefully(desk, order, lambda order: _submit(desk, order))
    except Stopped as stopped:
        stop_loss.trip(str(stopped))
        return desk.ledger.note(order, reason=str(stopped))
    if order.state is State.PREPARED:
        stop_loss.count(sent)
    if over_bound(sent, desk.account.rules.fee_on_top) is not None and (why := why_above_bound(desk, order.run_key)):
        stop_loss.trip(why)
    return sent


def _submit(desk: Desk, order: Order) -> Order:
    """Send an order, or ask about one of unknown outcome; a code that costs too much now is asked about alone."""
    dearer = why_dearer(desk, order)
    if dearer is None:
        return desk.submission.submit(order)
    if order.state is State.UNKNOWN:
        return desk.submission.ask(order)
    return desk.ledger.note(order, reason=dearer) if order.state is State.PREPARED else order


def follow_orders(desk: Desk, run_key: str, ids: Sequence[int], seconds: float) -> int:
    """Query these orders of a run until all are final or the time is up; returns how many are still open.

    Unknown orders are queried at least once, whatever the time. Only a part is in memory at a time.
    """
    if not 0 <= seconds < float("inf"):
        raise InputError(f"following takes a number of seconds, zero or more (got {seconds})")
    deadline = desk.clock.monotonic() + seconds
    pause = FOLLOW.first_pause
    states: tuple[State, ...] = (State.UNKNOWN, State.ACCEPTED) if seconds > 0 else (State.UNKNOWN,)
    followed = set(ids)

    def still_open() -> list[int]:
        waiting = _stop_loss(desk, run_key).why is None
        ids = desk.ledger.order_ids(run_key, states, waiting=waiting)
        return [order_id for order_id in ids if order_id in followed]

    with desk.hold(run_key):
        waiting, sends = still_open(), _may_send(desk, run_key)
        while waiting:
            asked = StopLoss()
            asking: tuple[State, ...] = (*states, State.PREPARED)
            for some in batched(waiting, ORDERS_PER_TASK):
                follow = functools.partial(_follow_one, desk, asked=asked, sends=sends)
                desk.run_concurrently(follow, desk.ledger.orders(ids=some, states=asking))
                if desk.clock.monotonic() > deadline:
                    asking = (State.UNKNOWN, State.PREPARED)
            waiting, left = still_open(), deadline - desk.clock.monotonic()
            if left <= 0 or not waiting:
                break
            desk.clock.sleep(min(pause, left))
            pause = min(pause * 1.5, FOLLOW.max_pause)
        return len(waiting)


def _may_send(desk: Desk, run_key: str) -> bool:
    """Judge what waits of a run, and may leave while it is followed, also by another process than the one that sent
    it; return False where nothing more of it may leave now."""
    if (why := _stop_loss(desk, run_key).why or why_above_bound(desk, run_key)) is None:
        try:
            judge_again(desk.ledger, run_key, rules_of_run(desk, run_key))
        except (InputError, ConfigurationError, ApprovalNeeded, RecoveryRuns) as error:
            why = str(error)
    if why is not None:
        LOG.info("run %s is only asked about: %s", run_key, why)
    return why is None


def _follow_one(desk: Desk, order: Order, *, asked: StopLoss, sends: bool) -> Order:
    """Follow one order, unless the stop-loss says that the service cannot be reached."""
    if asked.why is not None or (order.state is State.PREPARED and not sends):
        return order
    return _carefully(desk, order, _follow(desk, sends=sends), asked)


def _follow(desk: Desk, *, sends: bool) -> Callable[[Order], Order]:
    def ask(order: Order) -> Order:
        # `submit` may send an unknown order again when the evidence shows that it never arrived.
        with contextlib.suppress(Stopped):
            if order.state in (State.UNKNOWN, State.PREPARED) and sends:
                return _submit(desk, order)
            return desk.submission.ask(order)
        return order

    return ask


def _carefully(desk: Desk, order: Order, work: Callable[[Order], Order], asked: StopLoss | None = None) -> Order:
    """Do one order's work so that its failure does not affect others.

    Known errors become the row's reason. A failing ledger, a stop and an unexpected error are raised: orders on their
    way are finished, and the run can be resumed.
    """
    try:
        done = work(order)
        if asked is not None:
            asked.reached()
        return done  # noqa: TRY300 - `reached` raises nothing
    except (NotConnected, Refused, OutcomeUnknown) as error:
        if asked is not None:
            asked.could_not_ask(error)
        return desk.ledger.note(order, reason=f"could not be asked: {error}")
    except IllegalTransition:
        return desk.ledger.orders(ids=[order.id])[0]
    except NOTHING_LEFT as error:
        return desk.ledger.note(order, reason=str(error))
    except TreasuryError:
        raise
    except Exception:
        LOG.exception("%s: unexpected error; once it is mended, start the run again", order.request_id)
        raise
