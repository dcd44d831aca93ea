"""The settings of a sandbox."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType

from treasury.sandbox.behaviour import Behaviour

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
