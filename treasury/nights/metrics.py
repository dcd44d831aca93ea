"""Figures of a ledger for Prometheus, of what `treasury status` says: counts, ages and sums, no names and no payees."""

import logging
import math
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import case, func, select
from sqlalchemy.exc import SQLAlchemyError

from treasury.errors import TreasuryError
from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.ledger.made_reports import last_whole_report
from treasury.nights.standing import standing_of
from treasury.nights.sweep import HOUR_MS
from treasury.orders.states import State
from treasury.payments.desk import Desk
from treasury.provider.refusals import TOO_MANY

LOG = logging.getLogger("treasury")

RECENT = 5_000
"""Steps of the journal that the latencies are of, and that may still be committed out of sequence."""

QUANTILES = (0.5, 0.95, 0.99)


def registry_of(find_desk: Callable[[], Desk]) -> CollectorRegistry:
    """Return the metrics of the ledger of the desk that is found, read anew whenever they are asked for."""
    registry = CollectorRegistry()
    registry.register(_LedgerMetrics(find_desk))
    return registry


class _LedgerMetrics(Collector):
    """Reads one ledger, and the one that follows it where it was lost; may be asked from several threads."""

    def __init__(self, find_desk: Callable[[], Desk]) -> None:
        self._find_desk, self._desk = find_desk, find_desk()
        self._steps = _Steps(self._desk.ledger)
        self._guard = threading.Lock()

    def describe(self) -> list[Metric]:
        """Return nothing: registering reads no ledger."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric; of a ledger that cannot be read, only that it cannot."""
        found: list[Metric] = []
        try:
            with self._guard:
                found += self._read()
        except (TreasuryError, SQLAlchemyError) as error:
            LOG.warning("the metrics could not be read from the ledger: %s", type(error).__name__)
            found = []
        yield GaugeMetricFamily("treasury_ledger_readable", "1 where the ledger could be read.", value=bool(found))
        yield from found

    def _read(self) -> Iterator[Metric]:
        if (desk := self._find_desk()) is not self._desk:
            self._desk, self._steps = desk, _Steps(desk.ledger)
        ledger, found = self._desk.ledger, standing_of(self._desk)
        yield GaugeMetricFamily(
            "treasury_oldest_unknown_seconds",
            "Age of the oldest order of unknown outcome; 0 where there is none.",
            value=found["unknown"]["oldest_seconds"],
        )
        report = last_whole_report(ledger)
        hours = math.inf if report is None and found["jobs"] else (ledger.now() - (report or ledger.now())) / HOUR_MS
        yield GaugeMetricFamily(
            "treasury_report_age_hours", "Hours since the last report of everything; +Inf before it.", value=hours
        )
        yield GaugeMetricFamily(
            "treasury_required_actions", "What waits for a person, in lines.", value=len(found["needs"])
        )
        yield from _breaks(found)
        yield _labelled(
            "treasury_unexplained",
            "What the last report did not explain of a balance, by currency.",
            ("currency",),
            {(currency,): float(amount) for currency, amount in found["unexplained"].items()},
        )
        counted = select(schema.orders.c.state, func.count()).group_by(schema.orders.c.state)
        states = {str(state): 0 for state in State} | dict(ledger.read(counted))
        yield _labelled("treasury_orders", "Orders by state.", ("state",), {(each,): states[each] for each in states})
        yield from self._steps.metrics()


class _Steps:
    """Counts of the journal, which is read once: later only what was added to it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._read_to = 0
        self._counts = Counter[str]()

    def metrics(self) -> Iterator[Metric]:
        """Yield sends, answers 429 and how long the latest answers took."""
        journal = schema.journal.c
        [[newest]] = self._ledger.read(select(func.coalesce(func.max(journal.id), 0)))
        settled = max(self._read_to, newest - RECENT)
        self._counts.update(self._count(self._read_to, settled))
        self._read_to = settled
        now = self._counts + self._count(settled, newest)
        yield CounterMetricFamily("treasury_sends", "Requests that moved money, or may have.", value=now["sends"])
        yield CounterMetricFamily("treasury_answers_429", "Answers 429 to such requests.", value=now["429"])
        seconds = sorted(self._latencies(newest - RECENT))
        yield _labelled(
            "treasury_answer_seconds",
            f"From a send to its answer, of the last {RECENT} steps.",
            ("quantile",),
            {(str(each),): seconds[math.ceil(each * len(seconds)) - 1] for each in QUANTILES if seconds},
        )

    def _count(self, after: int, to: int) -> Counter[str]:
        journal = schema.journal.c
        sends = func.sum(case((journal.target == State.SENDING.value, 1), else_=0))
        too_many = func.sum(case((journal.code == TOO_MANY, 1), else_=0))
        [row] = self._ledger.read(select(sends, too_many).where(journal.id > after, journal.id <= to))
        return Counter({"sends": int(row[0] or 0), "429": int(row[1] or 0)})

    def _latencies(self, after: int) -> Iterator[float]:
        journal, sent = schema.journal.c, dict[int, int]()
        query = select(journal.order_id, journal.at, journal.target).where(journal.id > after).order_by(journal.id)
        for order, at, target in self._ledger.read(query):
            if target == State.SENDING.value:
                sent[order] = at
            elif order in sent:
                yield (at - sent.pop(order)) / 1000


def _breaks(found: Mapping[str, Any]) -> Iterator[Metric]:
    counts = Counter(each["class"] for each in found["breaks"])
    gross: dict[tuple[str, ...], Decimal] = defaultdict(Decimal)
    for each in found["breaks"]:
        if each["amount"] is not None and each["currency"] is not None:
            gross[each["class"], each["currency"]] += abs(Decimal(each["amount"]))
    yield _labelled(
        "treasury_open_breaks",
        "Open breaks of the last report that nobody accepted, by class.",
        ("class",),
        {(name,): counts[name] for name in counts},
    )
    yield _labelled(
        "treasury_open_breaks_gross",
        "Amounts of the open breaks, added up without their signs.",
        ("class", "currency"),
        {labels: float(amount) for labels, amount in gross.items()},
    )


def _labelled(
    name: str, said: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]
) -> GaugeMetricFamily:
    """A gauge with one sample for each labels -> value."""
    family = GaugeMetricFamily(name, said, labels=labels)
    for each in sorted(values):
        family.add_metric(each, values[each])
    return family
