"""How the service answers: no such order, no such user, both sides of a rate, what it supports, who signed a notice."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

from treasury.errors import InputError, NotTrusted
from treasury.provider.card_users import QueryCardUser
from treasury.provider.conversion import ConversionRate, ConversionRateRecord
from treasury.provider.fiat_payouts import QueryFiatPayout, SupportedCountries
from treasury.provider.funds import PayoutChannels
from treasury.provider.operation import Operation, Reply
from treasury.provider.orders import QueryTransaction
from treasury.provider.service_rules import BARE_404, NO_ABSENCE, describe_shape
from treasury.provider.signing import load_public_key, read_notification
from treasury.proving.access import AS_CONNECTED, Answer, Proof, ProofVerdict, Questions, made_up, words_of

SYMBOLS = ("ETH-USDT", "BTC-USDT")
"""Pairs whose two rates are asked for, until one is answered."""

LOOKS = 5
"""How often both sides of a rate are looked at while it moves."""


def prove_absences(questions: Questions) -> Iterator[Proof]:
    """How the service answers about an order, a payout and a card user that nobody has."""
    rules = questions.rules
    orders: Mapping[str, Operation[Any]] = {
        "order": QueryTransaction(request_id=made_up()),
        "fiat payout": QueryFiatPayout(request_id=made_up()),
    }
    not_orders = {BARE_404, *NO_ABSENCE, *rules.refused_for_good, *rules.asked_first}
    yield _absence(questions, "no_such_order", rules.entry("no_such_order"), orders, not_orders)
    users = {"card user": QueryCardUser(user_xid=made_up())}
    yield _absence(questions, "no_such_user", rules.entry("no_such_user"), users, NO_ABSENCE)


def _absence(
    questions: Questions, name: str, setting: list[str], asked: Mapping[str, Operation[Any]], never: Collection[str]
) -> Proof:
    """`never`: answers that are no absence, whatever they are answered to."""
    answers = {what: questions.ask(operation) for what, operation in asked.items()}
    shapes = {what: describe_shape(answer) for what, answer in answers.items() if not _is_silent(answer)}
    said = "; ".join(f"a made-up {what} was answered {words_of(answer)}" for what, answer in answers.items())
    other = {what: shape for what, shape in shapes.items() if shape not in setting}
    if not shapes:
        return Proof(name, setting, ProofVerdict.OPEN, said)
    if not other:
        return Proof(name, setting, ProofVerdict.PROVEN, said)
    fit = [shape for shape in other.values() if _says_none(shape, never)]
    if len(fit) < len(other):
        said += ": that is no evidence that there is none; ask the service's support"
    shown = {shape for shape in shapes.values() if _says_none(shape, never)}
    proposed = sorted(shown if len(shapes) == len(asked) else {*setting, *shown}) if fit else None
    return Proof(name, setting, ProofVerdict.CONTRADICTED, said, proposed)


def _is_silent(answer: Answer) -> bool:
    """Tell whether an answer says nothing about this service: none came, or a fault, or a throttle."""
    shape = describe_shape(answer)
    return shape in ("no answer", "429", "500", "http-429") or shape.startswith("http-5")


def _says_none(shape: str, never: Collection[str]) -> bool:
    if shape == "found" or shape in never:
        return False
    return shape == BARE_404 or not shape.startswith("http-")


def prove_sides(questions: Questions) -> Iterator[Proof]:
    """Both sides of one rate: how they are written, and which one buys the base currency (it costs more)."""
    rules = questions.rules
    for symbol in SYMBOLS:
        for case in (rules.side_case, "lower" if rules.side_case == "upper" else "upper"):
            looks = _looks(questions, symbol, case)
            if first := next(looks, None):
                yield _case(rules.side_case, case, symbol)
                yield _buy(rules.buy, symbol, chain([first], looks))
                return
    answer = questions.ask(ConversionRate(symbol=symbol, side="BUY"), side_case=rules.side_case, buy="base")
    said = f"the rates of {' and '.join(SYMBOLS)} were not answered ({words_of(answer)})"
    yield Proof("side_case", rules.side_case, ProofVerdict.OPEN, said)
    yield Proof("buy", rules.buy, ProofVerdict.OPEN, said)


def _looks(questions: Questions, symbol: str, case: str) -> Iterator[tuple[Decimal, Decimal, Decimal]]:
    """The rate of SELL between two of BUY, again and again, as long as both sides are answered."""

    def rate(side: str) -> Decimal | None:
        answer = questions.ask(ConversionRate(symbol=symbol, side=side), side_case=case, buy="base")
        return answer.rate if isinstance(answer, ConversionRateRecord) else None

    before = rate("BUY")
    for _ in range(LOOKS):
        if before is None or (sell := rate("SELL")) is None or (after := rate("BUY")) is None:
            return
        yield before, sell, after
        before = after


def _case(setting: str, case: str, symbol: str) -> Proof:
    said = f"the rates of {symbol} are answered when BUY and SELL are written in {case} case"
    if case == setting:
        return Proof("side_case", setting, ProofVerdict.PROVEN, said)
    return Proof("side_case", setting, ProofVerdict.CONTRADICTED, f"{said}, and refused in {setting} case", case)


def _buy(setting: str, symbol: str, looks: Iterable[tuple[Decimal, Decimal, Decimal]]) -> Proof:
    for before, sell, after in looks:
        said = f"{symbol}: BUY at {before:f}, SELL at {sell:f}, BUY at {after:f}"
        if shown := side_that_buys(before, sell, after):
            said += f": what costs more buys the base, so BUY buys the {shown} currency"
            if shown == setting:
                return Proof("buy", setting, ProofVerdict.PROVEN, said)
            return Proof("buy", setting, ProofVerdict.CONTRADICTED, said, shown)
    said += ": the sides differ by no more than the rate moves, so they do not tell which side buys"
    return Proof("buy", setting, ProofVerdict.OPEN, said)


def side_that_buys(before: Decimal, sell: Decimal, after: Decimal) -> str | None:
    """Which currency BUY buys, by a SELL rate between two BUY rates: `base` where BUY costs more, else `quote`.

    None where the sides differ by no more than the rate moved between the two: a rate that moves tells nothing.
    """
    moved = abs(before - after)
    if sell < min(before, after) - moved:
        return "base"
    return "quote" if sell > max(before, after) + moved else None


def prove_support(questions: Questions) -> Iterator[Proof]:
    """Tell whether the lists of countries and channels are answered: no entry depends on them, previews do."""
    asked: Mapping[str, Operation[Any]] = {
        "supported_countries": SupportedCountries(),
        "payout_channels": PayoutChannels(country="ID", currency="IDR"),
    }
    for name, operation in asked.items():
        answer = questions.ask(operation)
        answered = isinstance(answer, Reply)
        said = f"{operation.path} was answered {words_of(answer)}"
        yield Proof(name, AS_CONNECTED, ProofVerdict.PROVEN if answered else ProofVerdict.OPEN, said)


def prove_platform_key(questions: Questions, saved: Path) -> Proof:
    """Tell whether the platform's key verifies a notification that was saved as it arrived."""
    account = questions.client.account
    name = "platform_key"
    if account.platform_key is None:
        return Proof(
            name, AS_CONNECTED, ProofVerdict.OPEN, "no platform key is connected: notifications cannot be verified"
        )
    if not saved.exists():
        said = f"no notification is saved: put the body of one, as it arrived, into {saved}"
        return Proof(name, AS_CONNECTED, ProofVerdict.OPEN, said)
    try:
        read_notification(saved.read_bytes(), load_public_key(account.platform_key), account.rules)
    except (NotTrusted, InputError) as error:
        return Proof(name, AS_CONNECTED, ProofVerdict.CONTRADICTED, f"{saved.name}: {error}")
    return Proof(name, AS_CONNECTED, ProofVerdict.PROVEN, f"{saved.name} is signed with it")
