"""The sandbox's world: everything it remembers, its clock, its books, and the state file that keeps them."""

import heapq
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import TypeAdapter

from treasury.private_files import make_empty
from treasury.provider.signing import load_private_key
from treasury.sandbox.answers import Repeated
from treasury.sandbox.books import BookAccount, Books
from treasury.sandbox.clock import SandboxClock
from treasury.sandbox.currencies import Rates
from treasury.sandbox.dice import digits
from treasury.sandbox.entities import CardUser, Notification, Order, Quote
from treasury.sandbox.keys import generate_key_pair, public_half
from treasury.sandbox.settings import SandboxSettings

T = TypeVar("T")


class Store:
    """Documents by kind and key. Without a file it keeps nothing, at no cost."""

    def __init__(self, path: Path | None) -> None:
        self._adapters: dict[type[Any], TypeAdapter[Any]] = {}
        self._changed: dict[tuple[str, str], object] = {}
        self._connection = None if path is None else self._open(path)

    @staticmethod
    def _open(path: Path) -> sqlite3.Connection:
        make_empty(path)
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        # WAL without a sync at each commit survives the death of the process; only a power cut could lose the last.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS documents (kind TEXT, key TEXT, body BLOB NOT NULL, PRIMARY KEY (kind, key))"
        )
        return connection

    def _adapter(self, kind: type[Any]) -> TypeAdapter[Any]:
        if kind not in self._adapters:
            self._adapters[kind] = TypeAdapter(kind)
        return self._adapters[kind]

    def mark(self, kind: str, key: str, document: object) -> None:
        """This document changed; it is written, as it then is, by the next `commit`."""
        if self._connection is not None:
            self._changed[kind, key] = document

    def commit(self) -> None:
        """Write everything that was marked, in one transaction."""
        if self._connection is None or not self._changed:
            return
        rows = [
            (kind, key, self._adapter(type(document)).dump_json(document))
            for (kind, key), document in self._changed.items()
        ]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", rows)
        self._connection.execute("COMMIT")
        self._changed.clear()

    def load(self, kind: str, shape: type[T]) -> Iterator[tuple[str, T]]:
        """Key and document of one kind, in the order they were first written."""
        if self._connection is None:
            return
        found = self._connection.execute("SELECT key, body FROM documents WHERE kind = ? ORDER BY rowid", (kind,))
        for key, body in found:
            yield key, self._adapter(shape).validate_json(body)

    def discard(self, kind: str, keys: list[str]) -> None:
        """Delete documents of one kind."""
        if self._connection is not None:
            rows = [(kind, key) for key in keys]
            self._connection.executemany("DELETE FROM documents WHERE kind = ? AND key = ?", rows)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()


class World:
    """All state. Whoever reads or changes it does so inside `open()`."""

    def __init__(self, settings: SandboxSettings, clock: SandboxClock, public_url: str) -> None:
        self.settings = settings
        self.clock = clock
        self.public_url = settings.public_url.rstrip("/") or public_url
        self.rates = Rates(settings.seed)
        self.orders: dict[str, Order] = {}
        self.quotes: dict[str, Quote] = {}
        self.users: dict[str, CardUser] = {}
        self.addresses: dict[str, str] = {}
        """Address -> currency of each address given out."""
        self.notifications: list[Notification] = []
        self.undelivered: dict[int, Notification] = {}
        """Those of them that will be attempted, by number."""
        self.nonces: dict[str, float] = {}
        """Nonce -> the machine's time until which it is remembered, oldest first."""
        self._references: dict[str, str] = {}
        self._agenda: list[tuple[float, int, Order | CardUser]] = []
        self._entries = 0
        self.on_news: Callable[[], object] | None = None
        """Called, from any thread, when something is to come due, or the clock was put forward."""
        self._lock = threading.RLock()
        self._store = Store(settings.state)
        self.books = Books(lambda place, balance: self._store.mark("balance", place, balance))
        with self.open():
            self._restore()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold the world for one request: alone, with amounts exact to 60 digits, and written down at the end."""
        with self._lock, localcontext(prec=60):
            yield
            self._store.commit()

    def close(self) -> None:
        """Close the state file."""
        with self._lock:
            self._store.close()

    @property
    def now(self) -> float:
        """The sandbox's time, Unix seconds."""
        return self.clock.now()

    def number(self, *parts: object) -> str:
        """An order number: 28 digits that start with the date, the same for the same seed and parts."""
        date = datetime.fromtimestamp(self.now, UTC)
        return f"{date:%Y%m%d}" + digits(20, self.settings.seed, "number", *parts)

    # References

    def require_new(self, reference: str) -> None:
        """Refuse (202224) a `request_id` or `xid` that any order or quote has."""
        if reference in self._references:
            number = self._references[reference]
            raise Repeated(reference, number if number in self.orders else None)

    def find_order(self, reference: str) -> Order | None:
        """The order of this `request_id` or `xid`."""
        return self.orders.get(self._references.get(reference, ""))

    def find_quote(self, reference: str) -> Quote | None:
        """The quote of this `request_id` or `xid`."""
        return self.quotes.get(self._references.get(reference, ""))

    # What is remembered

    def save_order(self, order: Order) -> None:
        """Remember an order as it now is, and when its next status is due."""
        self.orders[order.order_no] = order
        self._references[order.request_id] = order.order_no
        self._store.mark("order", order.order_no, order)
        self._schedule(order)

    def save_quote(self, quote: Quote) -> None:
        """Remember a quote. Its reference leads to the quote until an order is made from it, then to the order."""
        self.quotes[quote.number] = quote
        self._references.setdefault(quote.reference, quote.number)
        self._store.mark("quote", quote.number, quote)

    def save_user(self, user: CardUser) -> None:
        """Remember a card user, and when the next step of the audit is due."""
        self.users[user.user_xid] = user
        self._store.mark("user", user.user_xid, user)
        self._schedule(user)

    def save_address(self, address: str, currency: str) -> None:
        """Remember an address as the platform's."""
        self.addresses[address] = currency
        self._store.mark("address", address, currency)

    def save_notification(self, notification: Notification) -> None:
        """Remember a notification, new or attempted."""
        if notification.number == len(self.notifications):
            self.notifications.append(notification)
        if notification.due_at is None:
            self.undelivered.pop(notification.number, None)
        else:
            self.undelivered[notification.number] = notification
            self._tell()
        self._store.mark("notification", str(notification.number), notification)

    def save_nonce(self, nonce: str, until: float) -> None:
        """Remember a nonce until that time of the machine, and forget those whose time has come."""
        self.nonces[nonce] = until
        self._store.mark("nonce", nonce, until)
        wall = self.clock.wall()
        while self.nonces[oldest := next(iter(self.nonces))] <= wall:
            del self.nonces[oldest]

    # Time

    def _schedule(self, entity: Order | CardUser) -> None:
        if entity.due_at is not None:
            self._entries += 1
            heapq.heappush(self._agenda, (entity.due_at, self._entries, entity))
            self._tell()

    def _tell(self) -> None:
        if self.on_news is not None:
            self.on_news()

    @property
    def next_due(self) -> float | None:
        """The sandbox's time at which something is to be done without a request; None while nothing is."""
        times = [notice.due_at for notice in self.undelivered.values() if notice.due_at is not None]
        times += [self._agenda[0][0]] if self._agenda else []
        return min(times, default=None)

    def due(self) -> Iterator[Order | CardUser]:
        """Orders and users whose next step is due, earliest first; each is to be saved before the next is taken."""
        while self._agenda and self._agenda[0][0] <= self.now:
            at, _, entity = heapq.heappop(self._agenda)
            if entity.due_at == at:
                yield entity

    def advance(self, seconds: float) -> None:
        """Put the clock forward."""
        self.clock.advance(seconds)
        self._tell()
        self._store.mark("clock", "advanced", self.clock.advanced)

    # Coming up

    def _restore(self) -> None:
        balances = dict(self._store.load("balance", Decimal))
        if balances:
            self.books.restore(balances)
        else:
            for currency, amount in self.settings.balances.items():
                self.books.move(BookAccount.OPENING, BookAccount.AVAILABLE, currency, Decimal(amount))
        for _, advanced in self._store.load("clock", float):
            self.clock.advanced = advanced
        for _, quote in self._store.load("quote", Quote):
            self.save_quote(quote)
        for _, order in self._store.load("order", Order):
            self.save_order(order)
        for _, user in self._store.load("user", CardUser):
            self.save_user(user)
        self.addresses.update(self._store.load("address", str))
        notices = (notice for _, notice in self._store.load("notification", Notification))
        for notice in sorted(notices, key=lambda notice: notice.number):
            self.save_notification(notice)
        nonces = sorted(self._store.load("nonce", float), key=lambda pair: pair[1])
        self.nonces.update(pair for pair in nonces if pair[1] > self.clock.wall())
        self._store.discard("nonce", [nonce for nonce, _ in nonces if nonce not in self.nonces])

    @cached_property
    def platform_key(self) -> rsa.RSAPrivateKey:
        """The key that signs notifications; made when first needed, kept in the state file."""
        stored = dict(self._store.load("key", str))
        private = stored.get("platform") or generate_key_pair()[0]
        self._store.mark("key", "platform", private)
        return load_private_key(private)

    # Looking in

    def show_platform_key(self) -> str:
        """The public half of the platform's key, PEM."""
        return public_half(self.platform_key)

    def show_orders(self) -> list[dict[str, Any]]:
        """Every order, oldest first, with everything that is known about it but its reply."""
        hidden = ("reply", "due_at")
        return [
            {name: value for name, value in vars(order).items() if name not in hidden}
            | {"arrive_amount": order.arrive_amount}
            for order in self.orders.values()
        ]
