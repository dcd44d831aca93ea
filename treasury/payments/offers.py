"""Asks the service what it offers for a sheet, and its terms of single payments, before the yes.

Lists are kept for a day, balances and rates are asked for anew.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from treasury.errors import NotConnected, OutcomeUnknown, Refused, RowProblem
from treasury.files import write_json
from treasury.money import exact, format_amount, round_up
from treasury.orders.records import Order
from treasury.orders.rows import PayoutRow, Route
from treasury.payments.desk import Desk
from treasury.planning.route_offers import Offers, Place, judge_offered, place_of
from treasury.provider.fiat_payouts import (
    RemittancePurposes,
    SupportedBanks,
    SupportedCountries,
    SupportedFields,
    SupportedNetworks,
)
from treasury.provider.funds import EstimateFee, FeeEstimate, PayoutChannels
from treasury.provider.operation import Operation, Reply
from treasury.provider.orders import VerifyDepositAddress, Withdraw
from treasury.provider.scan_to_pay import QrCodeDetails, ScanToPayInfo, SubmitScanToPay
from treasury.reports.results import DEARER

LOG = logging.getLogger("treasury")

KEPT_SECONDS = 24 * 3600.0
"""How long an answered list is good for."""
FORM = 2
"""The form in which lists are kept; those of another form are asked for again."""
MAX_ROUTES = 200
"""Combinations of place, bank and network whose required fields are asked for."""


R = TypeVar("R")


class OfferQuestions:
    """Asks a service what may be left unanswered; one that is away is not asked again."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._is_away = False
        self.not_answered: list[str] = []
        """The questions that were not answered, in words."""

    def ask(self, operation: Operation[Any], what: str, read: Callable[[Any], R | None]) -> R | None:
        """Return what `read` finds in the answer; None when there is none, or not of a shape that can be read."""
        found = None
        if not self._is_away:
            try:
                found = read(self._desk.client.read(operation))
            except (NotConnected, OutcomeUnknown) as error:
                LOG.info("%s could not be asked: %s", what, error)
                self._is_away = True
            except (Refused, KeyError, TypeError, AttributeError, ValueError) as error:
                why = error if isinstance(error, Refused) else "the answer has another shape than the document says"
                LOG.info("%s was not answered: %s", what, why)
                self._is_away = isinstance(error, Refused) and (error.http_status >= 500 or error.http_status == 429)
        if found is None and what not in self.not_answered:
            self.not_answered.append(what)
        return found


class Lists:
    """The lists of one account's service, kept in a file of its home for a day."""

    def __init__(self, desk: Desk, questions: OfferQuestions, since: float = 0.0) -> None:
        """`since`: a list that was kept before, Unix seconds, is asked for again."""
        self._questions = questions
        self._since = since
        self._clock = desk.clock
        name = hashlib.sha256(desk.ledger.account.encode()).hexdigest()[:16]
        self._file = desk.settings.home / "lists" / f"{name}.json"
        self._kept = _read(self._file)
        self._changed = False

    def ask(self, operation: Operation[Any], what: str, read: Callable[[Reply], Any]) -> Any:
        """Return what `read` makes of the answer, plain JSON values; None where it is empty, or there is none."""
        name = json.dumps([FORM, operation.operation_name(), operation.body()], sort_keys=True)
        kept = self._kept.get(name)
        if kept is not None and kept["at"] >= self._since and 0 <= self._clock.wall() - kept["at"] < KEPT_SECONDS:
            return kept["says"]
        says = self._questions.ask(operation, what, lambda reply: read(reply) or None)
        if says is not None:
            self._kept[name] = {"at": self._clock.wall(), "says": says}
            self._changed = True
        return says

    def keep(self) -> None:
        """Write what was asked, for a day."""
        if self._changed:
            write_json(self._file, self._kept)


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: each for name, each in found.items() if isinstance(each, dict) and {"at", "says"} <= each.keys()}


def judge_by_offers(
    desk: Desk, rows: Iterable[PayoutRow], questions: OfferQuestions
) -> tuple[Offers, list[RowProblem]]:
    """Return what the service offers for these rows, and those that it would refuse.

    No row is refused by a list that was kept: what it was judged by is asked for again.
    """
    began = desk.clock.wall()
    offers = offers_for(desk, rows, questions)
    if problems := judge_offered(rows, offers):
        lines = {each.row for each in problems}
        offers_for(desk, (row for row in rows if row.line in lines), questions, since=began)
        offers = offers_for(desk, rows, questions)
        problems = judge_offered(rows, offers)
    return offers, problems


def offers_for(desk: Desk, rows: Iterable[PayoutRow], questions: OfferQuestions, since: float = 0.0) -> Offers:
    """Return what the service offers for the places, banks and networks of these rows.

    `since`: a list that was kept before, Unix seconds, is asked for again.
    """
    direct: set[Place] = set()
    quoted: set[Place] = set()
    routes: set[tuple[Place, str, str]] = set()
    withdrawn: dict[str, Decimal] = {}
    for row in rows:
        if row.route is Route.WITHDRAWAL and row.amount is not None:
            withdrawn.setdefault(row.currency, row.amount)
        if row.route not in (Route.DIRECT, Route.QUOTED):
            continue
        place = place_of(row)
        (direct if row.route is Route.DIRECT else quoted).add(place)
        if row.route is Route.QUOTED and len(routes) < MAX_ROUTES:
            routes.add((place, str(row.fields["beneficiary_bank_id"]), str(row.fields["clear_network"])))
    lists = Lists(desk, questions, since)
    channels = {place: _channels(lists, place) for place in sorted(direct)}
    quotes = _quoted(lists, sorted(quoted), sorted(routes)) if quoted else {}
    named = {(place, kind): found for place, each in channels.items() for kind, found in each.items()}
    named |= {(place, "quoted"): found for place, found in quotes.get("quoted_banks", {}).items()}
    offers = Offers(
        banks={place: frozenset(found["banks"]) for place, found in channels.items()},
        wallets={place: frozenset(found["wallets"]) for place, found in channels.items()},
        names={(place, code): name for (place, _), found in named.items() for code, name in found.items() if name},
        **_withdrawals(lists, withdrawn),
        **{name: each for name, each in quotes.items() if name != "quoted_banks"},
        quoted_banks={place: frozenset(found) for place, found in quotes.get("quoted_banks", {}).items()},
    )
    lists.keep()
    return offers


Names = Mapping[str, str]
"""Code -> name; an empty one where the service says none."""


def _channels(lists: Lists, place: Place) -> Mapping[str, Names]:
    def read(reply: Any) -> dict[str, Names]:
        return {"banks": _names(reply.banks, "code", *CALLED), "wallets": _names(reply.wallets, "code", *CALLED)}

    what = f"banks and wallets of {place.currency} in {place.country}"
    found: dict[str, Names] | None = lists.ask(PayoutChannels(**place._asdict()), what, read)
    return found or {"banks": {}, "wallets": {}}


CALLED = ("enName", "localName", "enShortName", "localShortName")
"""Members of a channel that name it, the best one first (public fact 5.10)."""


def _names(entries: Iterable[Any] | None, code: str, *called: str) -> Names:
    return {str(each[code]): next((str(each[by]) for by in called if each.get(by)), "") for each in entries or ()}


def _withdrawals(lists: Lists, withdrawn: Mapping[str, Decimal]) -> dict[str, Any]:
    """Return the least that may be withdrawn of each asset, and its fraction digits; what is not said is not judged."""

    def read(reply: Any) -> dict[str, Any]:
        said = {"least": reply.min_threshold, "decimals": reply.decimals}
        return {name: str(value) for name, value in said.items() if value is not None}

    least: dict[str, Decimal] = {}
    decimals: dict[str, int] = {}
    for currency, amount in sorted(withdrawn.items()):
        asked = EstimateFee(currency=currency, amount=amount)
        found: dict[str, str] = lists.ask(asked, f"limits of withdrawals of {currency}", read) or {}
        if "least" in found:
            least[currency] = Decimal(found["least"])
        if "decimals" in found:
            decimals[currency] = int(found["decimals"])
    return {"least": least, "decimals": decimals}


def _countries(lists: Lists) -> Mapping[str, list[str]]:
    """Country -> the currencies that quoted payouts bring there."""
    found: dict[str, list[str]] | None = lists.ask(
        SupportedCountries(),
        "countries of quoted payouts",
        lambda reply: {str(each["country"]): list(map(str, each["currencies"])) for each in _of(reply, "countries")},
    )
    return found or {}


def _quoted_banks(lists: Lists, place: Place) -> Names:
    found: Names | None = lists.ask(
        SupportedBanks(**place._asdict()),
        f"banks of quoted payouts of {place.currency} in {place.country}",
        lambda reply: _names(_of(reply, "banks"), "bank_code", "bank_name"),
    )
    return found or {}


def bank_names(desk: Desk, country: str, direct: str | None) -> Names:
    """Return the banks and wallets of a country by their codes, as the service names them; nothing where it is silent.

    `direct`: the currency that direct payouts bring there; None where payments there are quoted.
    """
    lists = Lists(desk, OfferQuestions(desk))
    if direct is not None:
        channels = _channels(lists, Place(country, direct))
        found = {**channels["banks"], **channels["wallets"]}
    else:
        places = [Place(country, currency) for currency in _countries(lists).get(country, ())]
        found = {code: name for place in places for code, name in _quoted_banks(lists, place).items()}
    lists.keep()
    return found


def _quoted(lists: Lists, places: Iterable[Place], routes: Iterable[tuple[Place, str, str]]) -> dict[str, Any]:
    purposes = lists.ask(RemittancePurposes(), "purposes", lambda reply: sorted(_codes(reply)))
    banks: dict[Place, Names] = {}
    networks: dict[Place, frozenset[str]] = {}
    for place in places:
        where = f"of quoted payouts of {place.currency} in {place.country}"
        banks[place] = _quoted_banks(lists, place)
        found = lists.ask(
            SupportedNetworks(**place._asdict()),
            f"networks {where}",
            lambda reply: [str(each) for each in _of(reply, "networks")],
        )
        networks[place] = frozenset(found or ())
    fields = {}
    for place, bank, network in routes:
        if bank not in banks[place] or network not in networks[place]:
            continue
        asked = SupportedFields(**place._asdict(), bank_code=bank, network=network)
        found = lists.ask(
            asked,
            f"fields of bank {bank} over {network}",
            lambda reply: {"required": [str(each["key"]) for each in _of(reply, "fields_") if each.get("required")]},
        )
        fields[place, bank, network] = frozenset((found or {}).get("required", ()))
    return {
        "countries": {country: frozenset(each) for country, each in _countries(lists).items()},
        "quoted_banks": banks,
        "networks": networks,
        "fields": fields,
        "purposes": frozenset(purposes or ()),
    }


def _of(reply: Any, member: str) -> list[Any]:
    return list(getattr(reply, member) or ())


def _codes(reply: Any) -> Iterable[str]:
    return [code for code in reply.purposes if len(code) == 2 and code.isdigit()]


MAX_ASKED = 200
"""Rows of a plan that the service is asked about one by one."""


@dataclass(frozen=True)
class CodeTerms:
    """The terms of paying a QR code, in the asset that is debited (document, endpoint 14)."""

    amount: Decimal
    fee: Decimal
    rate: Decimal | None
    payee_name: str | None

    @exact
    def at_most(self, margin_percent: Decimal) -> Decimal:
        """Amount and fee with a margin, rounded up to cents."""
        return round_up((self.amount + self.fee) * (100 + margin_percent) / 100, 2)


def terms_of_code(questions: OfferQuestions, qrcode: str, amount: Decimal | None, named: str) -> CodeTerms | None:
    """Return the terms of paying a code; None where the service does not say them in what is debited, or those of
    another payment.

    `amount`: in THB. `named`: the payment, for people.
    """
    debits, receives = SubmitScanToPay.debits, SubmitScanToPay.receives

    def read(reply: QrCodeDetails) -> CodeTerms | None:
        fee = reply.fee_amount or Decimal(0)
        is_other = reply.order_currency not in (None, debits) or reply.currency not in (None, receives)
        is_other = is_other or (fee != 0 and reply.fee_currency not in (None, debits))
        is_other = is_other or (amount is not None and reply.amount not in (None, amount))
        if reply.order_amount is None or reply.order_amount <= 0 or fee < 0 or is_other:
            return None
        return CodeTerms(reply.order_amount, fee, reply.exchange_rate, reply.beneficiary_name)

    asked = ScanToPayInfo(qrcode=qrcode, amount=amount)
    found: CodeTerms | None = questions.ask(asked, f"the cost of the code of {named}", read)
    return found


def terms_of_row(questions: OfferQuestions, row: PayoutRow) -> CodeTerms | None:
    """Return the terms of paying the code of a row; None where the service does not say them."""
    return terms_of_code(questions, row.fields["qrcode"], row.receive_amount, row.row_ref)


@exact
def why_dearer(desk: Desk, order: Order) -> str | None:
    """Say why a code must not be paid now: it costs more than its plan allows for, by the terms asked again; or None.

    None, too, of any other operation, and where the service does not say its terms.
    """
    if order.operation != SubmitScanToPay.operation_name() or order.bound is None:
        return None
    asked = desk.ledger.payload(order)
    terms = terms_of_code(OfferQuestions(desk), asked["qrcode"], Decimal(asked["amount"]), order.row_ref)
    if terms is None or terms.amount + terms.fee <= order.bound:
        return None
    cost, most = format_amount(terms.amount + terms.fee), format_amount(order.bound)
    return f"{DEARER}{cost} {order.currency} now, its fee included, and its plan allows for {most}"


def said_of_rows(desk: Desk, questions: OfferQuestions, rows: Iterable[PayoutRow]) -> dict[str, str]:
    """Row -> what the service says of its payment, in words; of the first `MAX_ASKED` withdrawals and codes."""
    asked = [row for row in rows if row.route in (Route.WITHDRAWAL, Route.QR_CODE)][:MAX_ASKED]

    def said(row: PayoutRow) -> str:
        if row.route is Route.QR_CODE:
            return said_of_code(terms_of_row(questions, row))
        assert row.amount is not None
        return said_of_withdrawal(desk, questions, row.currency, row.amount, row.account, row.fields.get("tag"))

    return dict(zip((row.row_ref for row in asked), desk.run_concurrently(said, asked), strict=True))


def said_of_code(terms: CodeTerms | None) -> str:
    """Say what paying a code costs; nothing where the service does not say its terms."""
    if terms is None:
        return ""
    at = "" if terms.rate is None else f" at {format_amount(terms.rate)}"
    cost = f"{format_amount(terms.amount)} {SubmitScanToPay.debits}{at}, and a fee of {format_amount(terms.fee)}"
    return f"{cost}; the service names {terms.payee_name}" if terms.payee_name else cost


@exact
def said_of_withdrawal(
    desk: Desk, questions: OfferQuestions, currency: str, amount: Decimal, address: str, tag: str | None
) -> str:
    """Say what arrives of a withdrawal, by the estimated fee, and whether its address is the service's own."""
    said = []

    def read(reply: FeeEstimate) -> Decimal | None:
        return reply.fee_amount

    asked = EstimateFee(currency=currency, amount=amount)
    fee: Decimal | None = questions.ask(asked, f"fee estimate of {currency}", read)
    if fee is not None:
        is_on_top = Withdraw.operation_name() in desk.account.rules.fee_on_top
        arrives, how = (amount, "on top") if is_on_top else (amount - fee, "of it")
        said.append(f"about {format_amount(arrives)} arrive: the fee is {format_amount(fee)}, {how}")
    asked_of = VerifyDepositAddress(currency=currency, address=address, tag=tag)
    if questions.ask(asked_of, "whose an address is", lambda reply: reply.result):
        said.append("an address of the service itself")
    return "; ".join(said)
