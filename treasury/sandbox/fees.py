"""Fees: inside the amount, or on top of it, by the switch `fee_on_top`."""

from dataclasses import dataclass
from decimal import Decimal

from treasury.sandbox.behaviour import Behaviour

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
