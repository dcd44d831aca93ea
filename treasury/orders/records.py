"""Records of the ledger: intents, orders, quotes, runs. Amounts are `Decimal`, times Unix ms."""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import StrEnum
from typing import Any, Self

from treasury.money import canonical, family_of
from treasury.orders.states import State
from treasury.payees import look_of_payee
from treasury.provider.status import OrderStatus

ON_A_PERSONS_WORD = -1
"""`absences_needed` of an order that a person resolved as not sent: one query, and only a payment speaks against it."""


CALL = "call-"
"""How the run key of a single operation begins."""

REPLACING = "replacing:"
"""Stands in the place of a run key for a payment that replaces another one; no run key has a colon."""


def derive_request_id(
    account: str, run_key: str, row_ref: str, operation: str, generation: int, replaces: str | None = None
) -> str:
    """The permanent id of a payment, derived from its identity, never from the clock or a random number.

    29 characters of lower-case letters and digits; `generation` counts the quotes asked for one payment. The identity
    of one that `replaces` another is that other one, whatever its run: from whichever copy of a ledger it is sent, the
    service takes it once.
    """
    place = (run_key, row_ref) if replaces is None else (REPLACING, replaces)
    named = "\x1f".join((account, *place, operation, str(generation)))
    digest = hashlib.sha256(named.encode()).digest()
    return "tf-" + base64.b32encode(digest[:16]).decode().rstrip("=").lower()


def duplicate_key(payee: str, currency: str, amount: Decimal | None) -> tuple[str, str, str]:
    """Return what payments have in common that may be one: what their payees look like, the asset, and the amount.

    `currency`: a code of any network. None: the amount is not known.
    """
    return look_of_payee(payee), family_of(currency), "" if amount is None else canonical(amount)


@dataclass(frozen=True)
class Intent:
    """A planned payment, before it is recorded."""

    row_ref: str
    operation: str
    """Name of the operation that moves the money."""
    payload: Mapping[str, Any] = field(repr=False)
    """The fields that are needed to send it; stored encrypted, only until the order is final."""
    bound_content: Mapping[str, Any] = field(repr=False)
    """The content that the run key binds: changing it changes the payment."""
    currency: str | None = None
    amount: Decimal | None = None
    receive_currency: str | None = None
    receive_amount: Decimal | None = None
    fee: Decimal | None = None
    """Fee, its currency, and rate of the quote to confirm, when the caller already has one."""
    fee_currency: str | None = None
    rate: Decimal | None = None
    request_id: str | None = None
    """Given by the caller; None derives it."""
    confirmation: str | None = None
    """The quote to confirm, when the caller already has one."""
    duplicate_key: tuple[str, ...] | None = field(default=None, repr=False)
    """As `duplicate_key` makes it; payments with equal keys are duplicates. None is never a duplicate."""
    payee: str | None = field(default=None, repr=False)
    """Whom it pays. Personal: kept as a keyed hash."""
    payee_name: str | None = field(default=None, repr=False)
    """The payee's name as an eye reads it. Personal: kept as a keyed hash."""
    hashes: Mapping[str, str | None] = field(default_factory=dict)
    """Columns that say whom it pays, as `payee_hashes` made them of its quote, where it does not name its payee."""
    ceiling: Decimal | None = None
    """The most that it may debit, in `currency`, where the amount is not known beforehand."""
    bound: Decimal | None = None
    """The most that it should debit, fee included, where nothing that is sent bounds it."""
    duplicate_ok: str | None = None
    """Why a payment that looks like a duplicate is not one."""
    replaces: str | None = None
    """A request id of the payment that ended unpaid and that this one is paid instead of."""


class Record:
    """A record of the ledger."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Make a record of these values, ten times as fast as the constructor, which sets them one by one."""
        made = object.__new__(cls)
        made.__dict__.update(values)
        return made

    def changed(self, values: Mapping[str, Any]) -> Self:
        """A copy with these values changed."""
        return self.of({**vars(self), **values})


@dataclass(frozen=True)
class Order(Record):
    """One payment and where it stands."""

    id: int
    run_key: str
    row_ref: str
    operation: str
    generation: int
    request_id: str
    state: State
    doubtful: bool
    sends: int
    masked: str
    absences_needed: int
    currency: str | None
    amount: Decimal | None
    receive_currency: str | None
    receive_amount: Decimal | None
    fee: Decimal | None
    fee_currency: str | None
    rate: Decimal | None
    order_no: str | None
    confirmation: str | None
    status: OrderStatus | None
    code: str | None
    reason: str | None
    created_at: int
    sent_at: int | None
    final_at: int | None
    asked_at: int | None
    absent_since: int | None
    first_answer: str | None
    hold_kind: str | None
    released: str | None
    """The kinds of hold that a person released it from, separated by spaces."""
    counted_on: str | None
    """The business date on whose account it counts; None while nothing was judged."""
    ceiling: Decimal | None
    """The most that it may debit, where its amount is not known beforehand."""
    bound: Decimal | None
    """The most that it should debit, fee included, where nothing that was sent bounds it."""
    replaces: str | None
    """The first request id of the payment that ended unpaid and that this one is paid instead of."""
    told_fee: Decimal | None
    """The fee that the service named first; `fee` is the one that it names now."""
    told_fee_currency: str | None
    payee: str | None = field(repr=False)
    """Keyed hash of the account that it pays, with its country and bank."""
    payee_name: str | None = field(repr=False)
    """Keyed hash of the name that it pays."""
    alike: str | None = field(repr=False)
    """Keyed hash of payee, currency and amount."""
    personal: str | None = field(repr=False)
    payload: bytes | None = field(repr=False)
    checksum: str | None = field(repr=False)
    """Keyed, over what it is, where it stands, what it asks for and its payload."""

    @property
    def asked_as(self) -> str:
        """Return the reference that it is asked about by: of one that confirmed a quote by itself, the quote's own."""
        return self.row_ref if self.request_id == self.confirmation else self.request_id

    @property
    def is_on_a_persons_word(self) -> bool:
        """Return True for one that is in progress on a person's word alone: the service never showed it."""
        return self.state is State.ACCEPTED and self.order_no is None and self.status is None


class Stage(StrEnum):
    """How far a quote has come."""

    ASKED = "asked"
    """About to be asked, or no answer came."""
    ANSWERED = "answered"
    FOREIGN = "foreign"
    """The service knew its reference before this ledger asked: somebody else may have confirmed it."""
    DONE = "done"
    """It was not, and will not be, confirmed: another may follow."""


@dataclass(frozen=True)
class Quote(Record):
    """A quote that was asked for; without `quote` no readable answer came."""

    order_id: int
    generation: int
    request_id: str
    """Its own for ever: what it is stored under."""
    quote: str | None
    """The id that confirms it: the order number, or the quote id of a conversion."""
    pay_currency: str | None
    pay_amount: Decimal | None
    receive_currency: str | None
    receive_amount: Decimal | None
    fee: Decimal | None
    fee_currency: str | None
    rate: Decimal | None
    expires_at: int | None
    note: str | None
    created_at: int
    stage: Stage
    asks: int
    """Requests for it that may have reached the service."""
    ends_at: int | None
    """When it has ended for certain, Unix ms by our clock."""
    service_ends_at: int | None
    """When it ends by the service's clock, Unix ms."""
    checksum: str | None = None
    """Keyed: shows that nobody changed it by hand."""

    @staticmethod
    def unanswered() -> dict[str, Any]:
        """Every column of a quote that was never answered."""
        return dict.fromkeys(field.name for field in fields(Quote))


@dataclass(frozen=True)
class Run:
    """A run and the plan it carries out."""

    run_key: str
    kind: str
    created_at: int
    plan: Mapping[str, Any]
    plan_sha256: str
    policy: str | None = None
    """Version of the policy in force that what waits of it was judged by last."""
    is_changed: bool = False
    """It was changed in the ledger by hand."""


@dataclass(frozen=True)
class JournalEntry:
    """One step of one order."""

    at: int
    event: str
    source: str
    target: str
    process: str
    cause: str | None
    code: str | None
    status: int | None
