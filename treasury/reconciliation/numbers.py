"""Pure: order numbers. A service may count the orders of each operation by themselves, so a number names an order of
the operation that its order type names."""

from collections.abc import Collection, Mapping

from treasury.provider.catalogue import CATALOGUE

PAYIN = "pay"
INCOMING = ("charge", PAYIN)
"""Order types of money that comes in: deposits and pay-ins (public fact 2.2). No order of ours stands behind them."""

Name = str | tuple[str, str]
"""A reference, or a number and the operation whose orders are counted with it."""

_NAMED: Mapping[str, tuple[str, ...]] = {
    "extract": ("withdraw",),
    "proxy_pay": ("submit_scan_to_pay",),
    "payout": ("payout", "create_fiat_payout"),
    "exchange": ("create_fiat_payout", "conversion_execute"),  # no type of conversions is documented
    **dict.fromkeys(INCOMING, ("pay",)),
}
"""Order type -> the operations that it names (public fact 2.2)."""

_EVERY = tuple(name for name, operation in CATALOGUE.items() if operation.asked_with is not None)


def operations_of(order_type: str | None) -> tuple[str, ...]:
    """Return the operations that an order of this type may be of; every one where the type names none."""
    return _NAMED.get((order_type or "").casefold(), _EVERY)


def numbers_of(number: str | None, order_type: str | None) -> tuple[Name, ...]:
    """Return a number with each operation that its order may be of."""
    return tuple((number, each) for each in operations_of(order_type)) if number else ()


def names_of(order_no: str | None, request_id: str | None, order_type: str | None) -> tuple[Name, ...]:
    """Return the names by which the ledger may know what is shown so. In the place of a request id a bank may have the
    number of any order."""
    references = tuple(text for text in (order_no, request_id) if text)
    return (*references, *numbers_of(order_no, order_type), *numbers_of(request_id, None))


class Numbers:
    """Tells what is shown under one number apart by its operations: a number goes on to be that of what it was first
    seen with, and of anything that may be the same."""

    def __init__(self) -> None:
        self._first: dict[str, Collection[str]] = {}

    def name_of(self, number: str, order_type: str | None) -> str:
        """Return the number, with an operation where it is that of something else already."""
        some = operations_of(order_type)
        first = self._first.setdefault(number, some)
        both = tuple(each for each in first if each in some)
        if not both:
            return f"{number} {some[0]}"
        self._first[number] = both
        return number
