"""The settings of a sandbox, also as words of a command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from treasury.errors import InputError
from treasury.sandbox.behaviour import Behaviour, allowed, default_of


def read_switches(texts: Sequence[str]) -> Behaviour:
    """The behaviour that these switches make; a list that is given twice is one list.

    Raises `InputError`, which names what is allowed.
    """
    names = allowed()
    given: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in names or not equals:
            raise InputError(f"--behave is NAME=VALUE; names: {', '.join(names)} (got {text!r})")
        given[name] = f"{given[name]},{value}" if name in given else value
    return Behaviour(**{name: _value(name, text, names[name]) for name, text in given.items()})


def _value(name: str, text: str, takes: str) -> Any:
    try:
        return getattr(Behaviour.model_validate({name: _parts(name, text)}), name)
    except (ValidationError, ValueError):
        raise InputError(f"--behave {name} takes {takes} (got {text!r})") from None


def _parts(name: str, text: str) -> Any:
    """A list where the switch is one, pairs where it is a mapping; else the text itself."""
    default = default_of(name)
    words = [word.strip() for word in text.split(",") if word.strip()]
    if isinstance(default, frozenset):
        return words
    if isinstance(default, dict):
        return dict(_pair(word) for word in words)
    return None if default is None and text == "none" else text


def _pair(word: str) -> tuple[str, str]:
    left, colon, right = word.partition(":")
    if not colon:
        raise ValueError(word)
    return left.strip(), right.strip()


DEFAULT_BALANCES: Mapping[str, Decimal] = MappingProxyType(
    {
        "USDT": Decimal(1_000_000),
        "USDT_TRC20": Decimal(500_000),
        "USDT_ERC20": Decimal(500_000),
        "USDC_ERC20": Decimal(250_000),
        "BTC": Decimal(1),
        "ETH": Decimal(10),
        "TRX": Decimal(100_000),
        "EUR": Decimal(250_000),
        "USD": Decimal(250_000),
        "GBP": Decimal(100_000),
        "IDR": Decimal(5_000_000_000),
        "VND": Decimal(5_000_000_000),
        "INR": Decimal(10_000_000),
        "PHP": Decimal(10_000_000),
        "JPY": Decimal(20_000_000),
    }
)
"""Opening balances of the partner, each in its own currency."""


@dataclass(frozen=True)
class SandboxSettings:
    """Who may call, where it listens, how fast orders settle, what goes wrong on purpose."""

    partner_id: str = "900001"
    public_key: str = ""
    """The partner's public key, PEM or bare base64 of SubjectPublicKeyInfo."""
    port: int = 0
    """0 takes a free port outside 8000-8999."""
    seed: int = 1
    state: Path | None = None
    """A SQLite file that survives restarts; None keeps everything in memory."""
    settle_seconds: float = 3.0
    """From acceptance to the final status, on the sandbox's clock; 0 is final at the next look."""
    processing_seconds: float = 1.0
    """From 11 to 22, if that comes before the final status."""
    quote_seconds: float = 60.0
    """Validity of a fiat payout quote."""
    balances: Mapping[str, Decimal] = field(default_factory=lambda: DEFAULT_BALANCES)
    faults: Mapping[str, float] = field(default_factory=dict)
    """Name of a fault (see docs/sandbox-behaviour.md) -> the share of requests, or of orders, that meet it."""
    behaviour: Behaviour = Behaviour()
    """How it behaves where the document leaves that open (see docs/sandbox-behaviour.md)."""
    public_url: str = ""
    """The address that links to pages begin with; empty derives it from the port."""
    notify_url: str | None = None
    """Address of notifications for orders that name none, as a partner sets it in the portal."""
    timestamp_tolerance_seconds: float = 300.0
    slow_seconds: float = 5.0
    """How late a `slow` answer is."""
    read_lag_seconds: float = 3.0
    """How long a `read_lag` order is not found."""
    flip_seconds: float = 5.0
    """From success to failure of a `flip_final` order."""
