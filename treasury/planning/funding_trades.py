"""Pure: the conversions that a payout run's gap needs, as people agree to them with its plan."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal

from treasury.money import canonical, format_amount, parse_amount, sums_of
from treasury.planning.trades import Side, Trade


@dataclass(frozen=True)
class FundingTrade:
    """A conversion that a payout run's gap needs, as people agree to it with the plan of the run."""

    symbol: str
    side: Side
    currency: str
    """The asset that is spent."""
    amount: Decimal
    """The amount that is spent at the rate when it was planned."""
    at_most: Decimal
    """The most that conversions of this pair and side spend for the run, however often they are planned again."""
    receive_currency: str
    expected_receive: Decimal
    """Before the fee."""
    rate: Decimal
    worst_rate: Decimal
    """The lowest rate of a sale, the highest of a purchase."""

    def as_dict(self) -> dict[str, str]:
        """As JSON can hold it, amounts as text."""
        return {
            name: canonical(each) if isinstance(each, Decimal) else str(each) for name, each in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, str]) -> "FundingTrade":
        """Return what `as_dict` wrote."""
        return cls(
            symbol=content["symbol"],
            side=Side(content["side"]),
            currency=content["currency"],
            amount=parse_amount(content["amount"]),
            at_most=parse_amount(content["at_most"]),
            receive_currency=content["receive_currency"],
            expected_receive=parse_amount(content["expected_receive"]),
            rate=parse_amount(content["rate"]),
            worst_rate=parse_amount(content["worst_rate"]),
        )

    def allows(self, trade: Trade) -> bool:
        """Tell whether a conversion that was planned again is of its pair and side, at no worse rate."""
        same = (trade.symbol, trade.side, trade.currency) == (self.symbol, self.side, self.currency)
        return same and (trade.rate >= self.worst_rate if self.side is Side.SELL else trade.rate <= self.worst_rate)

    def __str__(self) -> str:
        better = "or more" if self.side is Side.SELL else "or less"
        return (
            f"{self.side.value} {self.symbol}: {format_amount(self.amount)} {self.currency} for about "
            f"{format_amount(self.expected_receive)} {self.receive_currency} at {canonical(self.rate)}; at most "
            f"{format_amount(self.at_most)} {self.currency}, at {canonical(self.worst_rate)} {better}"
        )


def bounds_of(agreed: Iterable[FundingTrade]) -> list[list[str]]:
    """Return what the hash of a run's plan covers of its conversions: their bounds, not the rates of the moment."""
    names = ("symbol", "side", "currency", "at_most", "worst_rate")
    return [[each.as_dict()[name] for name in names] for each in agreed]


def debits_of(agreed: Iterable[FundingTrade]) -> dict[str, Decimal]:
    """Currency -> what they spend at the most."""
    return sums_of((each.currency, each.at_most) for each in agreed)
