"""Switches for what the interface document leaves open: how this service behaves where another may differ.

The defaults are what the sandbox does when nothing is said. The comment of each switch names where it is applied.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from treasury.provider.catalogue import CATALOGUE
from treasury.provider.fiat_payouts import FiatPayoutQuote
from treasury.provider.operation import Operation
from treasury.sandbox.answers import CONSTANTS, invalid
from treasury.sandbox.entities import LISTED

Code = Annotated[str, StringConstraints(pattern=r"^([0-9]{1,18}|[A-Z][A-Z0-9_]{1,39})$")]
"""An envelope code: a number, or a constant in capitals."""

Status = Annotated[int, Field(ge=0, le=2**31 - 1)]

FEE_BEARING = ("withdraw", "payout", "create_fiat_payout", "submit_scan_to_pay")
"""Operations whose fee may be charged on top."""


def _no_success(how: str) -> str:
    if how == "200":
        raise ValueError("200 is success; say empty or empty_record")
    return how


Absence = Annotated[Literal["empty", "empty_record", "http-404"] | Code, AfterValidator(_no_success)]
"""How the query of something that is not there is answered."""


def _documented(codes: Mapping[str, str]) -> Mapping[str, str]:
    unknown = [code for code in codes if code not in map(str, CONSTANTS)]
    if unknown or "200" in codes.values():
        raise ValueError(
            f"a documented code to another one that is not 200; there are {', '.join(map(str, CONSTANTS))}"
        )
    return codes


def _listed(statuses: Mapping[int, int]) -> Mapping[int, int]:
    if not set(statuses) <= set(LISTED):
        raise ValueError(f"only listed statuses are shown as others: {', '.join(map(str, LISTED))}")
    return statuses


def _among(known: tuple[str, ...]) -> AfterValidator:
    def check(names: frozenset[str]) -> frozenset[str]:
        if not names <= set(known):
            raise ValueError(f"operations among {', '.join(known)}")
        return names

    return AfterValidator(check)


class Behaviour(BaseModel):
    """The behaviour of this service where the document says nothing; `treasury sandbox --behave NAME=VALUE` sets
    one."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    # The gate: `gate` and `signatures`.
    hash: Literal["SHA1", "SHA256"] = Field("SHA1", description="SHA1 or SHA256")
    timestamp_unit: Literal["any", "ms", "s"] = Field("any", description="any, ms or s")
    sign_type: str = Field("RSA", min_length=1, description="a text, such as RSA")
    null_text_is_blank: bool | None = Field(None, description="true, false, or none for either")
    nonce_and_time_checked: bool = Field(True, description="true or false")

    # What is judged beyond the document: `checks`, below.
    side_case: Literal["any", "upper", "lower"] = Field("any", description="any, upper or lower")
    both_quote_amounts: bool = Field(True, description="true or false")

    # How answers are written: `desk` and `answers`.
    refusal_codes: Annotated[Mapping[str, Code], AfterValidator(_documented)] = Field(
        {}, description="DOCUMENTED:OTHER codes by commas, such as 202203:301001"
    )
    statuses: Annotated[Mapping[int, Status], AfterValidator(_listed)] = Field(
        {}, description=f"LISTED:SHOWN by commas, such as 44:45; listed are {', '.join(map(str, LISTED))}"
    )
    amounts_as: Literal["plain", "java"] = Field("plain", description="plain or java")
    success_false: Annotated[frozenset[str], _among(tuple(CATALOGUE))] = Field(
        frozenset(), description=f"operations by commas, among {', '.join(CATALOGUE)}"
    )

    # What queries find and show: `handlers.queries` and `handlers.card_users`.
    no_such_order: Absence = Field("7000", description="a code, empty, empty_record or http-404")
    no_such_user: Absence = Field("404", description="a code, empty, empty_record or http-404")
    unconfirmed_status: Status = Field(11, description="a number")
    unconfirmed_found: bool = Field(True, description="true or false")
    conversion_found_by: Literal["xid", "quote_id", "order_no", "nothing"] = Field(
        "xid", description="xid, quote_id, order_no or nothing"
    )
    conversion_shown_in: Literal["paid", "received", "gross"] = Field(
        "paid", description="paid, received, or gross: received, with the fee"
    )
    payout_shown_in: Literal["paid", "received"] = Field("paid", description="paid or received")

    # What a deposit is of: `handlers.withdrawals` and `handlers.payins`.
    usdt_deposits: bool = Field(False, description="true or false")

    # What is notified beside orders: `notices`.
    kyc_notified: bool = Field(False, description="true or false")

    # What trades and fees are: `handlers`, and `charge` below.
    buy: Literal["base", "quote"] = Field("base", description="base or quote")
    conversion_fee_in: Literal["received", "paid"] = Field("received", description="received or paid")
    fee_on_top: Annotated[frozenset[str], _among(FEE_BEARING)] = Field(
        frozenset(), description=f"operations by commas, among {', '.join(FEE_BEARING)}"
    )
    fee_times: Annotated[int, Field(ge=1, le=100)] = Field(1, description="a number, 1 to 100")
    debited_when: Literal["final", "accepted"] = Field("final", description="final or accepted")

    def shown_status(self, status: int) -> int:
        """The number under which this service shows a status."""
        return self.statuses.get(int(status), int(status))


def allowed() -> Mapping[str, str]:
    """Name of each switch -> its values, in words."""
    return {name: str(field.description) for name, field in Behaviour.model_fields.items()}


def default_of(name: str) -> Any:
    """Return what a switch is when nothing is said."""
    return Behaviour.model_fields[name].default


ALWAYS_ON_TOP = frozenset({"submit_scan_to_pay"})
"""The examples show the fee of scan-to-pay beside the order amount (public fact 6, row 14)."""


@dataclass(frozen=True)
class Charge:
    """The cost of an amount, and what of it is left to arrive; both in the currency that is paid."""

    debit: Decimal
    left: Decimal


def is_on_top(behaviour: Behaviour, operation: str) -> bool:
    """Tell whether this operation's fee comes on top of its amount."""
    return operation in behaviour.fee_on_top or operation in ALWAYS_ON_TOP


def charge(behaviour: Behaviour, operation: str, amount: Decimal, fee: Decimal) -> Charge:
    """The debit and what is left: amount and amount less fee, or amount and fee, and the whole amount."""
    if is_on_top(behaviour, operation):
        return Charge(amount + fee, amount)
    return Charge(amount, amount - fee)


Check = Callable[[Operation[Any], Mapping[str, Any]], None]
"""Looks at a request whose fields hold, and at the fields as they came; raises `Refusal`."""

OTHER_AMOUNT = {"source": "receive_amount", "dest": "pay_amount"}
"""Mode of a fiat quote -> the amount that the mode does not name."""


def _in_case(write: Callable[[str], str], case: str) -> Check:
    def check(request: Operation[Any], fields: Mapping[str, Any]) -> None:
        if hasattr(request, "side") and fields["side"] != write(fields["side"]):
            raise invalid("side", f"must be written in {case} case")

    return check


def _one_amount(request: Operation[Any], _: Mapping[str, Any]) -> None:
    if isinstance(request, FiatPayoutQuote):
        other = OTHER_AMOUNT[request.quote_mode]
        if getattr(request, other) is not None:
            raise invalid(other, f"is not allowed when quote_mode is {request.quote_mode}")


def checks(behaviour: Behaviour) -> tuple[Check, ...]:
    """The checks of one behaviour; none by default."""
    sides = {"upper": (_in_case(str.upper, "upper"),), "lower": (_in_case(str.lower, "lower"),)}
    return sides.get(behaviour.side_case, ()) + (() if behaviour.both_quote_amounts else (_one_amount,))
