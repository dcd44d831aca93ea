"""Pure: plans payouts from the rows of a spreadsheet, with what each debits before its own quote tells."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from treasury.concurrency.batches import Packed
from treasury.money import ZERO, canonical, exact, format_amount, round_up
from treasury.orders.payment_decisions import Bounds
from treasury.orders.records import Intent, Quote, duplicate_key
from treasury.orders.rows import WAYS, LeftOut, PayoutRow, Route, Way
from treasury.planning.funding_trades import FundingTrade, bounds_of, debits_of
from treasury.policy.judge import check_run_total
from treasury.policy.limits import Limits, PaymentLimits, PayoutLimits, approvals_needed, least_rate, why_approvals
from treasury.policy.model import Policy
from treasury.texts import as_it_looks, canonical_json


@dataclass(frozen=True)
class SeenFee:
    """The fee that a quote took beside what was received by its rate."""

    receives: Decimal
    """The amount received."""
    fee: Decimal
    """In the currency that is paid."""


@exact
def seen_fees(quotes: Iterable[Quote]) -> tuple[SeenFee, ...]:
    """Return what was charged inside quotes of one pair of currencies; nothing of one that does not say its amounts.

    The larger of the fee that the quote names, in the currency that is paid, and what is paid beyond the amount
    received at the quote's rate: the document does not say how the three hang together, and its example
    contradicts each way (public fact 7.4, "fiat quote example").
    """
    found = []
    for quote in quotes:
        paid, received, rate = quote.pay_amount, quote.receive_amount, quote.rate
        if paid is None or not received:
            continue
        named = quote.fee if quote.fee is not None and quote.fee_currency == quote.pay_currency else ZERO
        beyond = paid - received / rate if rate else ZERO
        found.append(SeenFee(received, max(named, beyond, ZERO)))
    return tuple(found)


@exact
def expected_fee(receives: Decimal, seen: Sequence[SeenFee]) -> Decimal:
    """The most that a quote is expected to take for an amount received, by what others of its pair took.

    Neither more than the largest fee, which grows in proportion beyond the largest amount, nor a larger share than the
    largest one, which is that of the smallest amount below it: right for a fixed fee, and for a share.
    """
    if not seen:
        return ZERO
    amounts = [each.receives for each in seen]
    by_size = max(each.fee for each in seen) * max(Decimal(1), receives / max(amounts))
    by_share = max(each.fee / each.receives for each in seen) * max(receives, min(amounts))
    return min(by_size, by_share)


@exact
def most_expected(receives: Decimal, rate: Decimal, seen: Sequence[SeenFee], margin_percent: Decimal) -> Decimal:
    """Return the most that a payment may debit by its estimate: what it receives at a rate, its fee, and a margin.

    Rounded up, to hundredths where it is one or more.
    """
    debit = (receives / rate + expected_fee(receives, seen)) * (1 + margin_percent / 100)
    return round_up(debit, 2 if debit >= 1 else 8)


@exact
def expected_debit(
    receives: Decimal, rate: Decimal | None, ceiling: Decimal | None, seen: Sequence[SeenFee], margin: Decimal
) -> Decimal | None:
    """Return what a payment debits by the rate of now and the fees seen, with a margin, at most its ceiling; None if
    unknown. Rounded up to 8 decimals.

    `rate`: as many of what is received as one of what is paid gives. Where no quote of its pair was ever seen, its
    ceiling, if it has one: no fee is known, and more is never asked for.
    """
    if rate is None or (ceiling is not None and not seen):
        return ceiling
    debit = round_up((receives / rate + expected_fee(receives, seen)) * margin, 8)
    return debit if ceiling is None else min(debit, ceiling)


@dataclass(frozen=True)
class PayoutPlan:
    """The payments of a run, before anything is sent."""

    run_key: str
    rows: Packed[PayoutRow]
    debits: Mapping[str, Decimal]
    """Currency -> sum of what is certain to be debited."""
    receipts: Mapping[str, Decimal]
    """Currency -> sum of what beneficiaries receive, where the rows fix that and the debit is quoted later."""
    sha256: str
    policy: Policy | None
    over: str | None = None
    """Why its sums are over the policy's limit for a run; None when they are not."""
    recorded: Mapping[str, Decimal] = field(default_factory=dict)
    """Currency -> what its run, which began, debits besides."""
    left_out: tuple[LeftOut, ...] = ()
    """Rows of its sheet that are not paid."""
    mapped: Mapping[str, str] = field(default_factory=dict)
    """Headers of a person's own -> the columns that they are read as."""
    conversions: tuple[FundingTrade, ...] = ()
    """The conversions that are made before it is paid, at the most."""
    converted: Mapping[str, Decimal] = field(default_factory=dict)
    """Currency -> what conversions under earlier plans of its run spent."""
    paid_first: tuple[str, ...] = ()
    """The runs that are paid before it, and orders on their way, each with what it needs: it is converted for, too."""
    unfunded: str | None = None
    """Why conversions cannot close its gap; None when they can, or are not asked for."""
    on_top: Mapping[str, Decimal] = field(default_factory=dict)
    """Currency -> what fees on top of the amounts come to, as the service estimates them, with a margin."""
    unbounded: Mapping[str, int] = field(default_factory=dict)
    """Currency -> payments that fix what is received, and whose debit nothing bounds: they are not in `debits`."""
    partly: bool = False
    """True: where not all rows are funded, those that are leave, in the order of the sheet."""
    way: Way = WAYS[Route.DIRECT]
    """The way of its rows, which are of one kind; of no rows that of payouts."""

    @property
    def counted(self) -> dict[str, Decimal]:
        """Currency -> what limits of a run and approvals count: the debits of the plan, and what was recorded."""
        return add_sums(self.debits, self.recorded)

    @property
    def at_most(self) -> dict[str, Decimal]:
        """Currency -> the most that leaves: the debits, and the fees on top of them."""
        return add_sums(self.debits, self.on_top)

    @property
    def approvals(self) -> int:
        """How many people besides its maker have to approve the plan."""
        return max(approvals_needed(debits, limits) for debits, limits in self._judged)

    @property
    def why_approvals(self) -> list[str]:
        """The rules of the policy that ask for approvals of the plan."""
        return [rule for debits, limits in self._judged for rule in why_approvals(debits, limits)]

    @property
    def _judged(self) -> list[tuple[dict[str, Decimal], Limits]]:
        """Return what approvals count: the payments, and the conversions at the most, each by the limits of its
        table."""
        limits = Limits() if self.policy is None or not self.conversions else self.policy.table("conversions")
        return [(self.counted, self.limits), (add_sums(debits_of(self.conversions), self.converted), limits)]

    @property
    def kind(self) -> str:
        """The kind of its run: `payout`, `withdrawal` or `scan-to-pay`."""
        return self.way.kind

    @property
    def table(self) -> str:
        """The table of its policy that limits it."""
        return self.way.table

    @property
    def limits(self) -> PaymentLimits:
        """The limits of its policy; without one there are none."""
        return _limits(self.policy, self.table)

    @property
    def intents(self) -> Iterable[Intent]:
        """The payment of each row; gone through again, they are made again."""
        return _Intents(self)

    @property
    def funding(self) -> dict[str, Any] | None:
        """Return what its run keeps of the conversions that were agreed to with it; None without any."""
        if not self.conversions:
            return None
        bounds = [each.as_dict() for each in self.conversions]
        return {"plan_sha256": self.sha256, "approvals": self.approvals, "conversions": bounds}

    def as_dict(self) -> dict[str, Any]:
        """The plan as people and machines may read it: masked, amounts as text, its rows an iterator."""
        return {**self.summary(), "rows": map(_shown, self.rows)}

    def summary(self) -> dict[str, Any]:
        """The plan without its rows."""
        return {
            "run_key": self.run_key,
            "payments": len(self.rows),
            "debits": _as_text(self.debits),
            "receipts": _as_text(self.receipts),
            **({"on_top": _as_text(self.on_top), "at_most": _as_text(self.at_most)} if self.on_top else {}),
            **({"unbounded": dict(self.unbounded)} if self.unbounded else {}),
            **({"recorded": _as_text(self.recorded)} if self.recorded else {}),
            **({"headers": dict(self.mapped)} if self.mapped else {}),
            **({"conversions": [str(each) for each in self.conversions]} if self.conversions else {}),
            **({"paid_first": list(self.paid_first)} if self.paid_first else {}),
            **({"unfunded": self.unfunded} if self.unfunded else {}),
            **({"partly": True} if self.partly else {}),
            **({"left_out": [each.as_dict() for each in self.left_out]} if self.left_out else {}),
            "limits": "none: no policy was given" if self.policy is None else f"policy {self.policy.version[:12]}",
            "approvals_needed": self.approvals,
            "stop_loss": {"alike": self.limits.stop_after_failures, "percent": self.limits.stop_above_percent},
            "plan_sha256": self.sha256,
        }


@dataclass(frozen=True)
class MadePlan:
    """The plan of a start of a payout run, made once: shown, decided about and carried out by its id."""

    id: str
    """Empty for one that is only looked at."""
    payments: PayoutPlan
    """Every row of its sheet."""
    proposed: PayoutPlan | None
    """The part that is still to be agreed to, with conversions; None where nothing is."""
    policy_file: str | None = None
    """Names the policy; where none is in force, on a service of this machine, it is the one that applies."""
    add: bool = False
    """True: rows that the run does not have are added to it."""
    fund: bool = False
    """True: what the run lacks is converted before it is paid."""

    @property
    def shown(self) -> PayoutPlan:
        """The plan as people see it."""
        return self.proposed or self.payments

    @property
    def agreed(self) -> str | None:
        """The hash of what is agreed to, where conversions may be part of it."""
        return self.shown.sha256 if self.fund else None


@dataclass(frozen=True)
class _Intents(Iterable[Intent]):
    """Intents that are made while they are iterated: all together they need several times the memory of their rows."""

    plan: PayoutPlan

    def __iter__(self) -> Iterator[Intent]:
        return (plan_row(row, self.plan.limits) for row in self.plan.rows)


@exact
def plan_payouts(
    run_key: str,
    rows: Packed[PayoutRow],
    policy: Policy | None = None,
    recorded: Mapping[str, Decimal] = MappingProxyType({}),
    left_out: tuple[LeftOut, ...] = (),
    mapped: Mapping[str, str] = MappingProxyType({}),
    *,
    partly: bool = False,
) -> PayoutPlan:
    """Plan the payment of these rows: one intent a row, sums per currency, a hash over what a person approves.

    The hash is the SHA-256 of the policy's version and, sorted, the SHA-256 of each row: its reference, its
    `bound_content`, the bounds of its quote and its `duplicate_ok`, all as canonical JSON; not balances, rates or
    times. `recorded`: what the run debits besides, which its limits and approvals count, too. `mapped`, what headers of
    a person's own mean, and `partly` count in the hash where there is any; `left_out` counts nowhere. Its `over` says
    when the sums are over the policy's limit for a run.
    """
    way = next((row.way for row in rows), WAYS[Route.DIRECT])
    limits = _limits(policy, way.table)
    debits: dict[str, Decimal] = defaultdict(Decimal)
    receipts: dict[str, Decimal] = defaultdict(Decimal)
    on_top: dict[str, Decimal] = defaultdict(Decimal)
    unbounded: Counter[str] = Counter()
    hashes: list[bytes] = []
    for row in rows:
        amount, receive_amount, currency = row.amount, row.receive_amount, row.currency
        most = limits.max_per_payout.get(currency)
        if amount is not None:
            debits[currency] += amount
            if row.estimate is not None:
                on_top[currency] += row.estimate - amount
        elif (ceiling := row.ceiling(most)) is not None:
            debits[currency] += ceiling  # what its quote may ask at the most
        else:
            unbounded[currency] += 1
        if amount is None and receive_amount is not None:
            receipts[row.receive_currency] += receive_amount
        hashes.append(_hash_of(row, limits))
    over = check_run_total(add_sums(debits, recorded), limits)
    # An approval is bound to the limits of the table, not to all that the policy says.
    version = canonical_json(None if policy is None else policy.fingerprint(way.table))
    version += canonical_json(dict(mapped)) if mapped else ""
    version += canonical_json("partly") if partly else ""
    sha256 = hashlib.sha256(version.encode() + b"".join(sorted(hashes))).hexdigest()
    sums = dict(sorted(debits.items())), dict(sorted(receipts.items()))
    open_ends = dict(sorted(unbounded.items()))
    plan = PayoutPlan(run_key, rows, *sums, sha256, policy, over, recorded, left_out, mapped, unbounded=open_ends)
    return replace(plan, partly=partly, way=way, on_top=dict(sorted(on_top.items())))


def with_conversions(
    plan: PayoutPlan, conversions: tuple[FundingTrade, ...], converted: Mapping[str, Decimal] = MappingProxyType({})
) -> PayoutPlan:
    """The plan together with what is converted for it, under one hash: that of the payments, and the bounds.

    `converted`: what its run, which began, spent on conversions before, which approvals count and the hash covers.
    """
    if not conversions:
        return plan
    version = (
        "" if plan.policy is None else plan.policy.fingerprint("base_asset", "assets", "rebalancing", "conversions")
    )
    content: list[Any] = [plan.sha256, version, bounds_of(conversions)]
    content += [{currency: canonical(amount) for currency, amount in sorted(converted.items())}] if converted else []
    sha256 = hashlib.sha256(canonical_json(content).encode()).hexdigest()
    return replace(plan, sha256=sha256, conversions=conversions, converted=converted)


@exact
def add_sums(one: Mapping[str, Decimal], other: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Sums by currency of two."""
    return {name: one.get(name, Decimal(0)) + other.get(name, Decimal(0)) for name in sorted({*one, *other})}


def _as_text(sums: Mapping[str, Decimal]) -> dict[str, str]:
    return {currency: format_amount(total) for currency, total in sums.items()}


_NO_POLICY = Policy()


def _limits(policy: Policy | None, table: str) -> PaymentLimits:
    return (policy or _NO_POLICY).payments(table)


def _hash_of(row: PayoutRow, limits: PaymentLimits) -> bytes:
    bounds = _bounds(row, limits).as_dict() if row.route is Route.QUOTED else None
    excuse = [row.duplicate_ok] if row.duplicate_ok else []
    return hashlib.sha256(canonical_json([row.row_ref, row.bound_content, bounds, *excuse]).encode()).digest()


def plan_row(row: PayoutRow, limits: PaymentLimits = PaymentLimits()) -> Intent:
    """The payment a row asks for."""
    payload = _quoted_payload(row, limits) if row.route is Route.QUOTED else dict(row.fields)
    given = (row.receive_currency, row.receive_amount) if row.amount is None else (row.currency, row.amount)
    return Intent(
        row_ref=row.row_ref,
        operation=row.way.operation,
        payload=payload,
        bound_content=row.bound_content,
        currency=row.currency,
        amount=row.amount,
        receive_currency=row.receive_currency,
        receive_amount=row.receive_amount,
        payee=row.payee,
        payee_name=as_it_looks(row.payee_name) or None,
        duplicate_key=duplicate_key(row.payee, *given),
        duplicate_ok=row.duplicate_ok,
        replaces=row.replaces,
        ceiling=row.ceiling(limits.max_per_payout.get(row.currency)),
        bound=row.bound(limits.max_per_payout.get(row.currency)),
    )


def _bounds(row: PayoutRow, limits: PaymentLimits) -> Bounds:
    maximum, pair = limits.max_per_payout.get(row.currency), f"{row.currency}-{row.receive_currency}"
    return Bounds(
        pay_currency=row.currency,
        receive_currency=row.receive_currency,
        pay_amount=row.amount,
        receive_amount=row.receive_amount,
        max_pay=maximum if row.amount is not None else row.ceiling(maximum),
        min_rate=least_rate(limits.min_rates, pair) if isinstance(limits, PayoutLimits) else None,
        max_debit=None if row.amount is None else row.estimate,
    )


def _quoted_payload(row: PayoutRow, limits: PaymentLimits) -> dict[str, Any]:
    confirm = {"purpose_code": row.purpose_code, "description": row.description}
    return {
        "quote": dict(row.fields),
        "confirm": {name: value for name, value in confirm.items() if value is not None},
        "bounds": _bounds(row, limits).as_dict(),
    }


def _shown(row: PayoutRow) -> dict[str, Any]:
    amount, receive_amount = row.amount, row.receive_amount
    return {
        "row_ref": row.row_ref,
        "operation": row.way.operation,
        "currency": row.currency,
        "amount": None if amount is None else format_amount(amount),
        "receive_currency": row.receive_currency,
        "receive_amount": None if receive_amount is None else format_amount(receive_amount),
    }
