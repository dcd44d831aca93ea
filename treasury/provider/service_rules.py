"""Rules of this account's service where the interface document leaves it open: one table, read from the account file.

Every entry has a default that rests on a public fact; `treasury doctor --prove` asks the service which of them are so.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from treasury.errors import InvalidFields, NotConnected, OutcomeUnknown, Problem, Refused
from treasury.provider.conversion import ConversionExecute
from treasury.provider.fiat_payouts import UNUSED_AMOUNT, FiatPayoutQuote
from treasury.provider.fields import is_blank
from treasury.provider.operation import Effect, Operation, Reply, SeenOrder
from treasury.provider.orders import QueryTransaction
from treasury.provider.refusals import ACCOUNT_TROUBLE, ASK_FIRST, FINAL, TOO_MANY, RefusalKind
from treasury.provider.status import OrderStatus

EMPTY = "empty"
"""An answer of success without a record: `data` is null, or has none of the record's fields."""

BARE_404 = "http-404"
"""HTTP 404 without the service's envelope. A proxy or a wrong path says so, too: believed of card users only."""

STATUS_BY_NAME: Mapping[str, OrderStatus] = {
    "submitted": OrderStatus.SUBMITTED,
    "processing": OrderStatus.PROCESSING,
    "failed": OrderStatus.FAILED,
    "closed": OrderStatus.CLOSED,
    "settled": OrderStatus.SUCCESS,
}
"""Meanings that an account may give a status, and the listed status of each."""

NEVER_LISTED = frozenset({"200", "412", "429", "500", "202224"})
"""Envelope codes that can never be listed as an absence or as a refusal: success, and what a proxy's second
transmission, a throttle, a fault or a repeat of a request that acted is answered with."""


def _listed(value: object) -> object:
    """A list as the environment writes it: words with commas between them."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    return [str(each) for each in value] if isinstance(value, list | tuple | set | frozenset) else value


def _pairs(value: object) -> object:
    """A mapping as the environment writes it: 45:failed,46:closed."""
    if not isinstance(value, str):
        return value
    pairs = [word.partition(":") for word in value.split(",") if word.strip()]
    return {number.strip(): name.strip() for number, _, name in pairs}


NO_ABSENCE = NEVER_LISTED | {"400", *ACCOUNT_TROUBLE}
"""Envelope codes that say something else than "there is none", whatever they are answered to."""


def _decides(codes: frozenset[str]) -> frozenset[str]:
    for code in sorted(codes):
        if code in NEVER_LISTED or (len(code) == 3 and code.startswith("5")):
            raise ValueError(f"{code} decides nothing, whoever says it, and cannot be listed here")
    return codes


def _shapes(codes: frozenset[str]) -> frozenset[str]:
    if BARE_404 in codes:
        raise ValueError(f"{BARE_404} may come from a proxy or a wrong path: it is no evidence that an order is absent")
    return _user_shapes(codes)


def _final(codes: frozenset[str]) -> frozenset[str]:
    for code in sorted(codes & frozenset(ASK_FIRST)):
        raise ValueError(f"{code} depends on the state of the account: it may answer a repeat of a request that acted")
    return _decides(codes)


def _user_shapes(codes: frozenset[str]) -> frozenset[str]:
    if not codes:
        raise ValueError(f"must list at least one envelope code, or {EMPTY}")
    for code in sorted(codes & NO_ABSENCE):
        raise ValueError(f"{code} is answered to what exists, too, and cannot be listed here")
    return _decides(codes)


def _statuses(statuses: Mapping[int, str]) -> Mapping[int, str]:
    for name in statuses.values():
        if name not in STATUS_BY_NAME:
            raise ValueError(f"a status means one of {', '.join(STATUS_BY_NAME)} (got {name!r})")
    for status in sorted(statuses):
        if statuses[status] == "submitted" and OrderStatus(status).is_payment:
            raise ValueError(f"{status} shows a payment (public fact 2.1) and cannot mean submitted")
        if statuses[status] in ("failed", "closed") and status in (11, 12, 22, OrderStatus.SUCCESS):
            raise ValueError(
                f"{status} shows what is on its way or was paid (public facts 2.1 and 5.1) and cannot mean "
                f"{statuses[status]}: it would be paid again"
            )
    return statuses


def _moves_money(names: frozenset[str]) -> frozenset[str]:
    from treasury.provider.catalogue import CATALOGUE

    known = [name for name, operation in CATALOGUE.items() if operation.effect is Effect.MOVES_MONEY]
    for name in sorted(names):
        if name not in known:
            raise ValueError(f"{name} is not an operation that moves money: {', '.join(known)}")
    return names


def _all_move_money(pairs: Mapping[str, str]) -> Mapping[str, str]:
    _moves_money(frozenset(pairs))
    return pairs


Codes = Annotated[frozenset[str], BeforeValidator(_listed)]
Seconds = Annotated[float, Field(gt=0, le=10**8)]


class ServiceRules(BaseModel):
    """The `[service]` table: what the interface document leaves open, as this account's service does it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    hash: Literal["SHA1", "SHA256"] = "SHA1"
    """Hash that requests and notifications are signed with, under RSA PKCS#1 v1.5 (public fact 1.2, step 10)."""
    timestamp_unit: Literal["ms", "s"] = "ms"
    """Unit of a request's `timestamp` (public fact 1.6: the docs say seconds, all official code sends ms)."""
    timestamp_window_seconds: Seconds = 300.0
    """How old a timestamp may be for the service to read its request; unpublished, an assumption (public fact 1.6)."""
    sign_type: Annotated[str, Field(min_length=1, max_length=20)] = "RSA"
    """Value of `sign_type` (document, Authentication)."""
    null_text_is_blank: bool = True
    """True when the text `null` counts as absent in what is signed (public fact 1.2, step 9)."""
    no_such_order: Annotated[Codes, AfterValidator(_shapes)] = frozenset({"7000"})
    """How a query says that there is no such order: envelope codes, or `empty` (public fact 3.2: ORDER_NOT_EXIST).
    Nothing else counts as evidence that an order is not there: a 404 may come from a proxy or a wrong path."""
    no_such_user: Annotated[Codes, AfterValidator(_user_shapes)] = frozenset({"404", "7000", EMPTY})
    """How the card user query says that there is no such user: envelope codes, `empty`, or `http-404`; an assumption,
    since neither the document nor the public facts say."""
    refused_for_good: Annotated[Codes, AfterValidator(_final)] = frozenset(FINAL)
    """Envelope codes that depend on nothing but the request's own content: its row is rejected at once."""
    asked_first: Annotated[Codes, AfterValidator(_decides)] = frozenset(ASK_FIRST)
    """Envelope codes that depend on the state of the account: believed after two queries that find nothing. Every code
    that is in neither list decides nothing."""
    statuses: Annotated[Mapping[int, str], BeforeValidator(_pairs), AfterValidator(_statuses)] = Field(
        default_factory=dict
    )
    """Statuses of this service beside the published ones (11, 22, 44, 88, 99), or other meanings of those: number ->
    submitted, processing, failed, closed or settled; 11, 12, 22 and 99 mean neither failed nor closed. What is not
    listed anywhere is not final."""
    unconfirmed_statuses: Annotated[frozenset[int], BeforeValidator(_listed)] = frozenset()
    """Statuses that this service never shows for a confirmed quote; none unless a person adopted them."""
    quote_life_seconds: Seconds = 24 * 3600.0
    """How long after its creation a quote ends whose end is not shown."""
    side_case: Literal["upper", "lower"] = "upper"
    """Letter case of BUY and SELL on the wire (document, endpoints 15 and 16: examples upper, text lower)."""
    buy: Literal["base", "quote"] = "base"
    """Which currency of a pair the service's BUY buys (public fact 7.4, one example: the base)."""
    conversion_found_by: Literal["xid", "quote_id", "order_no", "nothing"] = "xid"
    """The id that the transaction query finds an executed conversion by (public fact 10.6 leaves it open). With
    `nothing`, one that was accepted counts as settled: there is no question that could tell more."""
    conversion_fee_in: Literal["received", "paid"] = "received"
    """Currency that the fee of a conversion is taken in (public fact 7.4, one example: the received one)."""
    fee_on_top: Annotated[Codes, AfterValidator(_moves_money)] = frozenset({"submit_scan_to_pay"})
    """Operations whose fee is debited beside their amount (public fact 6, row 14: scan-to-pay's example); of every
    other one it is a part of the amount (public fact 7.4, examples of withdrawals). A list replaces this one; `,`
    alone empties it."""
    debited_when: Annotated[
        Mapping[str, Literal["accepted", "final"]], BeforeValidator(_pairs), AfterValidator(_all_move_money)
    ] = Field(default_factory=dict)
    """Operation -> when it debits the balance: when it is accepted, or when it is final. The document does not say; an
    open order of an operation that is not listed may have taken its amount already, or not."""
    payout_shown_in: Literal["paid", "received"] = "paid"
    """Currency that the transaction query shows a direct payout in."""
    both_quote_amounts: bool = False
    """True when a fiat payout quote may carry the amount that its mode does not name, too; the document allows both."""

    @model_validator(mode="after")
    def _is_in_one_list(self) -> Self:
        refused = self.refused_for_good | self.asked_first
        for code in sorted((self.refused_for_good & self.asked_first) | (refused & self.no_such_order)):
            raise ValueError(f"{code} stands in two of refused_for_good, asked_first and no_such_order")
        return self

    def entry(self, name: str) -> Any:
        """Return what an entry says, as JSON has it; a list is sorted."""
        value = self.model_dump(mode="json")[name]
        return sorted(value) if isinstance(value, list) else value

    def wire_side(self, side: str) -> str:
        """BUY or SELL of the base currency, as this service writes it."""
        if self.buy == "quote":
            side = "SELL" if side == "BUY" else "BUY"
        return side.lower() if self.side_case == "lower" else side

    def as_sent(self, operation: Operation[Any]) -> dict[str, Any]:
        """The operation's own fields as this service takes them. Raises `InvalidFields` for what it does not take."""
        body = operation.body()
        if type(operation) is FiatPayoutQuote and (problem := self.quote_problem(body)) is not None:
            raise InvalidFields(operation.operation_name(), [problem])
        if "side" in type(operation).model_fields:
            body["side"] = self.wire_side(body["side"])
        return body

    def kind_of(self, refusal: Refused) -> RefusalKind:
        """Return what a refusal means. Only the service's own envelope counts: a status alone may be a gateway's."""
        if refusal.code is None or refusal.http_status >= 500 or refusal.http_status == int(TOO_MANY):
            return RefusalKind.UNDECIDED
        if refusal.code in self.refused_for_good or refusal.code in _own_refusals(refusal.operation):
            return RefusalKind.FINAL
        return RefusalKind.ASK_FIRST if refusal.code in self.asked_first else RefusalKind.UNDECIDED

    def question(
        self, operation: type[Operation[Any]], request_id: str, confirmation: str | None, order_no: str | None
    ) -> Operation[Any]:
        """The operation that asks what became of one of this operation, as this service finds it."""
        if operation is ConversionExecute:
            named = {"quote_id": confirmation, "order_no": order_no}.get(self.conversion_found_by)
            if named is not None:
                return QueryTransaction(request_id=named)
        return operation.question(request_id, confirmation, order_no)

    def quote_problem(self, fields: Mapping[str, Any]) -> Problem | None:
        """Return what this service does not take of a fiat payout quote with these fields, by wire name."""
        other = UNUSED_AMOUNT.get(str(fields.get("quote_mode")).casefold(), "")
        if self.both_quote_amounts or is_blank(fields.get(other)):
            return None
        return Problem(other, "is not taken beside the other amount (both_quote_amounts of the [service] table)")

    def says_no_such_order(self, answer: Refused | Reply) -> bool:
        """Tell whether the answer to a query says that there is no such order."""
        if isinstance(answer, Reply):
            return EMPTY in self.no_such_order and is_empty(answer)
        return answer.code is not None and answer.code in self.no_such_order and answer.http_status < 500

    def says_no_such_user(self, answer: Refused | Reply) -> bool:
        """Tell whether the answer to the card user query says that there is no such user."""
        if isinstance(answer, Reply):
            return EMPTY in self.no_such_user and is_empty(answer)
        if answer.code is None:
            return answer.http_status == 404 and BARE_404 in self.no_such_user
        return answer.code in self.no_such_user and answer.http_status < 500

    def read(self, operation: type[Operation[Any]], seen: SeenOrder) -> SeenOrder:
        """Return what the service shows of an order of this operation, in the published statuses; the number that it
        showed instead is kept in words."""
        if operation is ConversionExecute and self.conversion_found_by != "xid":
            seen = self._conversion(seen)
        name = None if seen.status is None else self.statuses.get(int(seen.status))
        if seen.status is None or name is None:
            return seen
        return _said(seen, STATUS_BY_NAME[name], f"status {int(seen.status)} at the service")

    def _conversion(self, seen: SeenOrder) -> SeenOrder:
        seen = replace(seen, request_id=None)  # it may be the id of the quote, or none
        is_open = seen.status is None or not seen.status.is_final
        if self.conversion_found_by != "nothing" or not seen.order_no or not is_open:
            return seen
        return _said(seen, OrderStatus.SUCCESS, "accepted; no query of this service shows a conversion")

    def shows_what_arrives(self, operation: type[Operation[Any]]) -> bool:
        """Tell whether a query may show an order of this operation in the currency that is received."""
        if operation.operation_name() == "payout":
            return self.payout_shown_in == "received"
        return operation.may_show_what_arrives


def _own_refusals(operation: str) -> frozenset[str]:
    """Codes that this operation alone is refused with for good."""
    from treasury.provider.catalogue import CATALOGUE

    known = CATALOGUE.get(operation)
    return frozenset() if known is None else known.refused_for_good


def _said(seen: SeenOrder, status: OrderStatus, why: str) -> SeenOrder:
    return replace(seen, status=status, reason=f"{seen.reason} ({why})" if seen.reason else why)


def is_empty(reply: Reply) -> bool:
    """Tell whether a reply names nothing at all: `data` was null, or an object without a value."""
    blank = (None, "")
    if any(value not in blank for value in vars(reply).values()):
        return False
    return reply.unread() is None and all(value in blank for value in (reply.model_extra or {}).values())


def describe_shape(answer: Refused | OutcomeUnknown | NotConnected | Reply) -> str:
    """An answer in the words of `no_such_order` and `no_such_user`; `found` for a record."""
    if isinstance(answer, Reply):
        return EMPTY if is_empty(answer) else "found"
    if isinstance(answer, NotConnected):
        return "no answer"
    if answer.code is not None:
        return answer.code
    return f"http-{answer.http_status}" if answer.http_status else "no answer"
