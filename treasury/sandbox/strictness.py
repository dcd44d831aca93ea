"""Refusals beyond what the document forbids, by the switches `side_case` and `both_quote_amounts`."""

from collections.abc import Callable, Mapping
from typing import Any

from treasury.provider.fiat_payouts import FiatPayoutQuote
from treasury.provider.operation import Operation
from treasury.sandbox.behaviour import Behaviour
from treasury.sandbox.refusal import invalid

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
