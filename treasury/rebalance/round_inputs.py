"""Reads what a rebalancing is planned from: balances, orders on their way, obligations, rates and what guards them."""

import logging
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from treasury.errors import IllegalTransition, InputError, InvalidFields, NotConnected, OutcomeUnknown, Refused
from treasury.ledger import obligations
from treasury.ledger.changed_by_hand import hold_changed_of
from treasury.ledger.debits import CONVERSION, counted_on, standing
from treasury.ledger.snapshots import last_good_rates
from treasury.money import family_of, format_amount
from treasury.orders.records import Order
from treasury.orders.states import OPEN, State
from treasury.payments.desk import Desk
from treasury.planning.market import Seen, assets_of, judge_rates, pairs_of, worth_of
from treasury.planning.payout_planner import add_sums
from treasury.planning.position import (
    InFlight,
    Obligation,
    Snapshot,
    average,
    begins_anew_after,
    expected_by_history,
    not_explained,
    scheduled,
)
from treasury.planning.trades import Rates, Side
from treasury.policy.model import Policy
from treasury.provider.conversion import ConversionRate, ConversionRateRecord
from treasury.provider.engine import NoResponse
from treasury.provider.engine_choice import open_engine
from treasury.provider.funds import PartnerBalance
from treasury.sheets.balances_sheet import read_balances, read_rates_sheet
from treasury.texts import with_person

LOG = logging.getLogger("treasury")

T = TypeVar("T")

MAX_AHEAD_MINUTES = 5
"""How far ahead of our clock the time of a balance may be."""

REFERENCE_SECONDS = 10.0
"""How long a second source of rates may take to answer."""


LOOKS = 6
"""So often the ledger and the balances are read until nothing moved between."""
LOOK_SECONDS = 0.3


def at_one_moment(desk: Desk, read: Callable[[], T]) -> tuple[T, bool]:
    """Return what is read of the ledger and of balances, and whether it is of one moment.

    A payment that leaves between the look at the ledger and at the balance would count twice, or not at all: then
    everything is read again, a few times.
    """
    look = 0
    while True:
        before, found = standing(desk.ledger), read()
        is_one = standing(desk.ledger) == before
        look += 1
        if is_one or look == LOOKS:
            return found, is_one
        desk.clock.sleep(look * LOOK_SECONDS)


@dataclass
class _Answers:
    """Balances as the service, or a file, says them."""

    available: dict[str, Decimal] = field(default_factory=dict)
    held: dict[str, Decimal] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def read_position(
    desk: Desk,
    policy: Policy,
    balances_file: Path | None = None,
    *,
    needed: Iterable[str] = (),
    replaced: Collection[str] = (),
) -> Snapshot:
    """Balances, orders on their way and obligations; without rates. Sends nothing that moves money.

    `needed`: assets that are wanted besides those of the policy and of obligations; `replaced`: runs whose unsent
    conversions count for none, because who plans now cancels them.

    Orders are asked about and read before balances are: what becomes final between counts as on its way, and is not
    traded a second time. Payments that the balances do not explain are asked about, and everything is read again.
    Conversions of the last days that were changed by hand are held first, and count as ones of which nobody knows.
    Raises `InputError` for a balances file that is wrong or too old.
    """
    hold_changed_of(desk.ledger, obligations.conversions_since(desk.ledger, desk.ledger.now() - CHECKED_MS))
    ask_about(desk, desk.ledger.orders(ids=obligations.open_conversions(desk.ledger)))
    found = _read_once(desk, policy, balances_file, needed, replaced)
    doubted = {each.request_id for each in not_explained(found)} if balances_file is None else set()
    if doubted:
        open_ones = [order for order in desk.ledger.orders(states=OPEN) if order.request_id in doubted]
        ask_about(desk, open_ones[:ASKED_AT_MOST])
        found = _read_once(desk, policy, balances_file, needed, replaced)
    return found


CHECKED_MS = 7 * 24 * 3600 * 1000
"""Conversions of this time are checked for changes by hand before a position is read from them, ms."""

ASKED_AT_MOST = 200
"""So many payments are asked about before a position is read, the oldest first; the others count as they are."""


def _read_once(
    desk: Desk, policy: Policy, balances_file: Path | None, needed: Iterable[str], replaced: Collection[str]
) -> Snapshot:
    now = desk.ledger.now()
    in_flight = obligations.orders_in_flight(desk.ledger, desk.account.rules, replaced)
    needs = _needs(desk, policy)
    assets = assets_of(policy, {*needed, *(each.asset for each in needs[0])})
    found = _from_service(desk, assets) if balances_file is None else _from_file(desk, policy, assets, balances_file)
    for asset, available in found.available.items():
        desk.ledger.saw_balance(asset, available)
    today = policy.day_start_ms(datetime.fromtimestamp(now / 1000, UTC))
    limits, doubtful = policy.table("conversions").max_per_day, obligations.may_have_been_paid(desk.ledger)
    return Snapshot(
        at=now,
        source="the service" if balances_file is None else balances_file.name,
        available=found.available,
        held=found.held,
        in_flight=in_flight,
        obligations=needs[0],
        doubtful=doubtful,
        daily=needs[1],
        missing=found.missing,
        notes=(*_pooled(found), *_not_sent(in_flight), *_in_doubt(doubtful)),
        fee_bps=_expected_fee(desk, policy),
        moved=obligations.traded_on(desk.ledger, today, replaced).moved,
        spent=counted_on(desk.ledger, policy.day_of(now), limits, replaced),
    )


def _not_sent(in_flight: Iterable[InFlight]) -> Iterator[str]:
    """Runs whose conversions count as on their way although they were not sent; a killed start leaves them so."""
    for run_key in sorted({each.run_key for each in in_flight if not each.is_sent}):
        yield f"conversions of run {run_key} are {NOT_SENT_YET}, and count as on their way: {how_to_end(run_key)}"


def _in_doubt(doubtful: Mapping[str, Decimal]) -> Iterator[str]:
    for asset, amount in doubtful.items():
        yield (
            f"{format_amount(amount)} {asset} are kept for payments that may have been made, because this ledger may "
            "be older than the service; nothing is bought for them: treasury doctor says what is held, and treasury "
            "release, or cancel, decides"
        )


NOT_SENT_YET = "recorded and not sent"


def how_to_end(run_key: str) -> str:
    """Return what a person does about conversions that a start left unsent."""
    return with_person(f"start its command again, or treasury cancel {run_key} --by NAME --why TEXT", is_listed=None)


def ask_about(desk: Desk, orders: Sequence[Order]) -> None:
    """Ask about orders on their way, so that what is final by now is known; what cannot be asked stays as it is.

    One that another process is sending at this moment is left alone.
    """

    def ask(order: Order) -> None:
        try:
            desk.submission.ask(order)
        except (Refused, OutcomeUnknown, NotConnected, IllegalTransition) as error:  # the last: another process did
            LOG.info("%s %s could not be asked about: %s", order.run_key, order.row_ref, error)

    desk.recover(orders)
    ids = [order.id for order in orders]
    desk.run_concurrently(ask, desk.ledger.orders(ids=ids, states=(State.UNKNOWN, State.ACCEPTED)))


def _expected_fee(desk: Desk, policy: Policy) -> Decimal:
    usual = obligations.usual_fee_bps(desk.ledger)
    return min(Snapshot(0).fee_bps if usual is None else usual, Decimal(policy.trading.fee_bps))


# --- obligations -------------------------------------------------------------------------------------------------


def _needs(desk: Desk, policy: Policy) -> tuple[tuple[Obligation, ...], dict[str, Decimal]]:
    """Return what is to be paid by the end of the horizon, and what was paid on a day, on the average, by asset."""
    now, terms = desk.ledger.now(), policy.trading
    today = date.fromisoformat(policy.day_of(now))
    known = obligations.payments_that_wait(desk.ledger)
    for each in policy.scheduled:
        since = now - int(begins_anew_after(each) / timedelta(milliseconds=1))
        begun = obligations.runs_since(desk.ledger, since)
        known += scheduled(policy.model_copy(update={"scheduled": (each,)}), today, begun)
    if terms.history_quantile is None and not any(_in_days(policy)):
        return tuple(known), {}
    since = now - (terms.history_days + 1) * 86_400_000
    paid = obligations.paid_by_day(desk.ledger, since, lambda ms: date.fromisoformat(policy.day_of(ms)))
    known += expected_by_history(policy, today, paid, known)
    return tuple(known), {asset: average(days, today, terms.history_days) for asset, days in paid.items()}


def _in_days(policy: Policy) -> Iterable[bool]:
    for band in policy.assets.values():
        levels = (band.floor, band.minimum, band.target, band.maximum)
        yield from (level is not None and level.counts == "days" for level in levels)


# --- balances ----------------------------------------------------------------------------------------------------


def _from_service(desk: Desk, assets: Iterable[str]) -> _Answers:
    found = _Answers()
    for asset in assets:
        try:
            record = desk.client.read(PartnerBalance(currency=asset))
        except (Refused, OutcomeUnknown, InvalidFields) as error:
            found.missing[asset] = f"its balance could not be had: {error}"
            continue
        if record.available is None:
            found.missing[asset] = "the service's answer shows no available balance of it (give --balances FILE)"
            continue
        found.available[asset] = record.available
        if record.frozen is not None:
            found.held[asset] = record.frozen
    return found


def _from_file(desk: Desk, policy: Policy, assets: Iterable[str], file: Path) -> _Answers:
    minutes = policy.trading.max_balance_age_minutes
    available, as_of = read_balances(file, ZoneInfo(policy.time_zone))
    seen_at = as_of or datetime.fromtimestamp(file.stat().st_mtime, UTC)
    age = (desk.ledger.now() / 1000 - seen_at.timestamp()) / 60
    if age > minutes:
        said = "its column as_of says" if as_of else "it was last changed"
        raise InputError(
            f"{file}: these balances are too old: {said} {seen_at:%Y-%m-%d %H:%M} UTC, and the policy believes "
            f"balances for {minutes:,} minutes (max_balance_age_minutes); nothing was traded: give newer ones, or "
            "leave out --balances and the service is asked"
        )
    if age < -MAX_AHEAD_MINUTES:
        raise InputError(f"{file}: its column as_of says {seen_at:%Y-%m-%d %H:%M} UTC, which is still to come")
    since = obligations.moved_since(desk.ledger, "", int(seen_at.timestamp() * 1000), ())
    if any(order.operation == CONVERSION for order in since):
        raise InputError(
            f"{file}: conversions were made since these balances were true ({seen_at:%Y-%m-%d %H:%M:%S} UTC), and are "
            "not in them; nothing was traded: give newer ones, or leave out --balances and the service is asked"
        )
    for order in since:  # payments that left meanwhile
        if order.currency in available and not order.state.may_be_replaced:
            available[order.currency] -= order.amount if order.amount is not None else order.ceiling or 0
    missing = {asset: f"its balance is missing in {file.name}" for asset in assets if asset not in available}
    return _Answers(available, {}, missing)


def _pooled(found: _Answers) -> Iterable[str]:
    """Codes of one asset that show one and the same balance: whether the service pools them is not documented."""
    by_balance: dict[tuple[str, Decimal], list[str]] = {}
    for asset, amount in sorted(found.available.items()):
        if amount:
            by_balance.setdefault((family_of(asset), amount), []).append(asset)
    for (_, amount), codes in by_balance.items():
        if len(codes) > 1:
            yield f"{' and '.join(codes)} show the same balance, {format_amount(amount)}: it may be one and the same"


# --- rates -------------------------------------------------------------------------------------------------------


def read_rates(
    desk: Desk,
    policy: Policy,
    position: Snapshot,
    *,
    needed: Iterable[str] = (),
    replaced: Collection[str] = (),
) -> Snapshot:
    """Return the snapshot with the rates of the pairs that may be traded; a rate that a guard stops is named in
    `missing`."""
    symbols = pairs_of(policy, {*needed, *(each.asset for each in position.obligations)})
    seen, missing = _ask_rates(desk, policy, symbols)
    stopped = judge_rates(seen, policy.trading, desk.ledger.now())
    for symbol, each in seen.items():
        LOG.info("rate %s: buy %s, sell %s", symbol, format_amount(each.rates.buy), format_amount(each.rates.sell))
    for symbol, why in stopped.items():
        LOG.warning("rate %s is not traded at: %s", symbol, why)
    rates = {symbol: each.rates for symbol, each in seen.items()}
    with_rates = replace(position, rates=rates, missing={**position.missing, **missing, **stopped})
    today = policy.day_start_ms(datetime.fromtimestamp(position.at / 1000, UTC))
    done = obligations.traded_on(desk.ledger, today, replaced)
    traded = add_sums(done.value, worth_of(policy, with_rates, done.spent))
    return replace(with_rates, traded=traded, cost=done.cost)


def _ask_rates(desk: Desk, policy: Policy, symbols: Iterable[str]) -> tuple[dict[str, Seen], dict[str, str]]:
    terms, last_good = policy.trading, last_good_rates(desk.ledger)
    references = {} if terms.reference_rates is None else _references(terms.reference_rates)
    seen, missing = {}, {}
    for symbol in symbols:
        try:
            rates, at = _rates_of(desk, symbol)
        except _NoRate as error:
            missing[symbol] = str(error)
            continue
        inverse = _inverse(desk, symbol) if terms.check_inverse_rates else None
        seen[symbol] = Seen(rates, at, last_good.get(symbol), inverse, references.get(symbol))
    return seen, missing


class _NoRate(Exception):
    """The service shows no rate of a pair; the message says why."""


def _rates_of(desk: Desk, symbol: str) -> tuple[Rates, int | None]:
    """Both rates of a pair and when the older one was made, Unix ms. Raises `_NoRate`."""
    buy, sell = (_rate(desk, symbol, side) for side in (Side.BUY, Side.SELL))
    if buy.rate is None or sell.rate is None:
        raise _NoRate("the service's answer shows no rate of it")
    return Rates(buy.rate, sell.rate), min((each.time_ms for each in (buy, sell) if each.time_ms), default=None)


def _rate(desk: Desk, symbol: str, side: Side) -> ConversionRateRecord:
    try:
        found = desk.client.read(ConversionRate(symbol=symbol, side=side.value))
    except (Refused, OutcomeUnknown, InvalidFields) as error:
        raise _NoRate(f"its rate could not be had: {error}") from None
    if found.rate is None or found.rate <= 0:
        raise _NoRate(f"the service's answer shows no rate for {side.value} {symbol}")
    return found


def _inverse(desk: Desk, symbol: str) -> Rates | None:
    """The rates of the pair the other way round; None where the service does not offer it."""
    asset, _, against = symbol.partition("-")
    try:
        return _rates_of(desk, f"{against}-{asset}")[0]
    except _NoRate as error:
        LOG.info("rate %s-%s: %s", against, asset, error)
        return None


def _references(source: str) -> Mapping[str, Decimal]:
    """Pair -> rate, of the second source. Raises `InputError` that says what is wrong with it."""
    if not source.startswith(("http://", "https://")):
        return read_rates_sheet(Path(source).expanduser())
    engine = open_engine(1, REFERENCE_SECONDS)
    try:
        answer = engine.get(source, REFERENCE_SECONDS)
    except (NoResponse, NotConnected) as error:
        raise InputError(f"the reference rates at {source} could not be had ({error}); nothing was traded") from None
    finally:
        engine.close()
    if answer.status != 200:
        raise InputError(
            f"the reference rates at {source} could not be had (HTTP status {answer.status}); nothing was traded"
        )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reference_rates.csv"
        file.write_bytes(answer.body)
        return read_rates_sheet(file)


# --- between tasks -------------------------------------------------------------------------------------------------


def sealed(desk: Desk, snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as tasks pass it on, with a checksum that only this ledger's key makes."""
    content = snapshot.as_dict()
    return {**content, "seal": desk.ledger.key.checksum(["market", content])}


def opened(desk: Desk, passed_on: Mapping[str, Any]) -> Snapshot:
    """The snapshot that tasks passed on. Raises `InputError` for one that was changed on the way."""
    content = {name: value for name, value in passed_on.items() if name != "seal"}
    if passed_on.get("seal") != desk.ledger.key.checksum(["market", content]):
        raise InputError("balances and rates are not those that were read; nothing was planned: start it again")
    return Snapshot.from_dict(content)
