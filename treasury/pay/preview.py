"""The look before a yes: what a plan pays, to whom, from which balance, and what the service would refuse."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from treasury.errors import InvalidSheet
from treasury.ledger.debits import in_flight, states_of
from treasury.ledger.known_payees import what_is_known
from treasury.ledger.quotes import live_quotes
from treasury.ledger.rehearsal import Rehearsed, rehearse
from treasury.money import canonical, exact, format_amount, parse_amount, round_up
from treasury.orders.rows import PayoutRow, Route
from treasury.orders.states import NEVER_LEFT
from treasury.pay.estimates import Estimates, FeeEstimates, rate_of
from treasury.payments.approving import by_name_only
from treasury.payments.desk import Desk
from treasury.payments.governing import Governing, would_rehearse
from treasury.payments.offers import OfferQuestions, judge_by_offers, said_of_rows
from treasury.planning.payout_planner import PayoutPlan, plan_payouts
from treasury.planning.route_offers import Funding, Place, place_of
from treasury.planning.shown import shown_payouts
from treasury.policy.people import People
from treasury.provider.fields import country_name
from treasury.provider.funds import PartnerBalance
from treasury.reports.results import REHEARSAL
from treasury.sheets.reading import Sheet

MAX_GROUPS = 20
"""Countries, routes and banks that are named; the page says how many more there are."""


def look(desk: Desk, plan: PayoutPlan, file: Path | None = None, *, in_full: bool = True) -> dict[str, Any]:
    """A payout plan as people see it before they say yes; quotes nothing, and sends nothing that moves money.

    `in_full`: with its payments; else only whether the money is there, for somebody who said yes beforehand.

    Raises `InvalidSheet` for rows that the service would refuse, by the lists that it gives.
    """
    questions = OfferQuestions(desk)
    offers, problems = judge_by_offers(desk, plan.rows, questions)
    if problems:
        raise InvalidSheet(str(file or plan.run_key), problems)
    waiting = _waiting(desk, plan)
    funding = funding_of(desk, questions, waiting, in_flight(desk.ledger, except_run=plan.run_key))
    on_top = {row.currency for row in plan.rows if row.way.operation in desk.account.rules.fee_on_top}
    shown: dict[str, Any] = {
        "funding": [{**_as_text(each), "fees_on_top": each.currency in on_top} for each in funding]
    }
    if waiting is not plan:
        shown["waiting"] = len(waiting.rows)
    if not in_full:
        return {**plan.summary(), **shown}
    known = what_is_known(desk.ledger, plan.run_key, plan.intents, plan.limits.duplicate_days)
    rehearsed = rehearse_plan(desk, plan, plan.limits.change_above_percent)
    said = said_of_rows(desk, questions, plan.rows)
    known = replace(known, holds=rehearsed.held, beside=rehearsed.beside, said=said)
    return {
        **shown_payouts(plan, known),
        **shown,
        "arrives": _arrives(questions, plan),
        "fees": _fees(desk, questions, plan),
        "fees_quoted": sum(_is_quoted_fee(desk, row) for row in plan.rows),
        "groups": _groups(plan.rows, offers.names),
        "not_asked": questions.not_answered,
        "notes": list(plan.rows.notes) if isinstance(plan.rows, Sheet) else [],
        "rehearsal": REHEARSAL if would_rehearse(desk) else None,
        "approvals": by_name_only(People() if plan.policy is None else plan.policy.listed),
    }


def rehearse_plan(desk: Desk, plan: PayoutPlan, percent: Decimal | None = None) -> Rehearsed:
    """Return what would be there if the plan were recorded now. `percent`: compare it with the last run, too."""
    rules = Governing(plan.policy, None).rules(desk, plan.table, {}, {})
    return rehearse(desk.ledger, plan.run_key, plan.intents, rules, percent)


def _waiting(desk: Desk, plan: PayoutPlan) -> PayoutPlan:
    """The plan with those rows alone that did not leave yet."""
    left = {row for row, (state, _) in states_of(desk.ledger, plan.run_key).items() if state not in NEVER_LEFT}
    rows = Sheet[PayoutRow]()
    for row in plan.rows:
        if row.row_ref not in left:
            rows.append(row)
    return plan if len(rows) == len(plan.rows) else plan_payouts(plan.run_key, rows, plan.policy)


@dataclass(frozen=True)
class Debit:
    """The debit of a row that waits."""

    row: PayoutRow
    amount: Decimal | None
    """With the fee on top, where that is known; None where nobody knows it beforehand."""
    is_estimated: bool
    """By the rate of now; else it is certain, or the most that it may be."""


@exact
def debits_of_rows(
    desk: Desk, questions: OfferQuestions, plan: PayoutPlan, margin: Decimal = Decimal(1)
) -> Iterator[Debit]:
    """Yield what each row of a plan debits, in the order of the plan.

    `margin`: what is estimated is multiplied by it. A quote that may still be confirmed says what its row debits.
    """
    estimates, quoted = Estimates(desk, questions, margin), live_quotes(desk.ledger, plan.run_key)
    for row in plan.rows:
        debit = row.amount if row.amount is not None else quoted.get(row.row_ref)
        if debit is not None:
            yield Debit(row, debit, is_estimated=False)
            continue
        ceiling = row.ceiling(plan.limits.max_per_payout.get(row.currency))
        expected = estimates.debit_of(row.currency, row.receive_currency, row.receive_amount or Decimal(0), ceiling)
        yield Debit(row, expected, is_estimated=expected != ceiling)


@exact
def funding_of(
    desk: Desk, questions: OfferQuestions, plan: PayoutPlan, flying: Mapping[str, Decimal], margin: Decimal = Decimal(1)
) -> list[Funding]:
    """Return what each currency has to hold, beside what it holds. `margin`: see `debits_of_rows`."""
    debits: dict[str, Decimal] = defaultdict(Decimal)
    estimated: dict[str, Decimal] = defaultdict(Decimal)
    not_known: Counter[str] = Counter()
    for each in debits_of_rows(desk, questions, plan, margin):
        if each.amount is None:
            not_known[each.row.currency] += 1
        else:
            (estimated if each.is_estimated else debits)[each.row.currency] += each.amount
    return [
        Funding(
            currency,
            debits[currency],
            round_up(total, 2) if (total := estimated[currency]) else total,
            not_known[currency],
            balance_of(questions, currency),
            flying.get(currency, Decimal(0)),
        )
        for currency in sorted({*debits, *estimated, *not_known})
    ]


def balance_of(questions: OfferQuestions, currency: str) -> Decimal | None:
    """Return what is available of a currency; None where the service does not say."""
    asked = PartnerBalance(currency=currency)
    found: Decimal | None = questions.ask(asked, f"balance of {currency}", lambda reply: reply.available)
    return found


def _as_text(funding: Funding) -> dict[str, Any]:
    amounts = {name: getattr(funding, name) for name in ("debit", "estimated", "balance", "in_flight", "remains")}
    texts = {name: None if amount is None else format_amount(amount) for name, amount in amounts.items()}
    return {"currency": funding.currency, **texts, "not_known": funding.not_known}


@exact
def _arrives(questions: OfferQuestions, plan: PayoutPlan) -> list[dict[str, str]]:
    """Return what arrives, by pair of currencies: as the sheet says, or estimated by the rate of now."""
    paid: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for row in plan.rows:
        is_exchanged = row.currency != row.receive_currency
        if row.receive_amount is None and row.amount is not None and is_exchanged:
            paid[row.currency, row.receive_currency] += row.amount
    found = [
        {"currency": currency, "amount": format_amount(total), "is": "as the sheet says"}
        for currency, total in plan.receipts.items()
    ]
    for (pays, receives), total in sorted(paid.items()):
        rate = rate_of(questions, pays, receives)
        if rate is not None:
            amount = (total * rate).quantize(Decimal("0.01"))
            said = f"estimate before fees, at {format_amount(rate)} now"
            found.append({"currency": receives, "amount": format_amount(amount), "is": said})
    return found


@exact
def _fees(desk: Desk, questions: OfferQuestions, plan: PayoutPlan) -> list[dict[str, Any]]:
    """Return what all payments of a plan cost, as the service estimates it, by currency and by how it is taken.

    Only of rows that say what they debit, and whose fee no quote will say.
    """
    known = [
        (row.way.operation, row.currency, row.amount)
        for row in plan.rows
        if row.amount is not None and not _is_quoted_fee(desk, row)
    ]
    estimated, on_top = FeeEstimates(questions, known), desk.account.rules.fee_on_top
    totals: dict[tuple[str, bool], Decimal] = defaultdict(Decimal)
    paid: dict[tuple[str, bool], list[Decimal]] = defaultdict(list)
    for operation, currency, amount in known:
        kind = (currency, operation in on_top)
        if (fee := estimated.of(currency, amount)) is not None:
            totals[kind] += fee
            paid[kind].append(amount)
    return [
        {
            "currency": currency,
            "of": format_amount(sum(paid[currency, is_on_top], Decimal(0))),
            "fee": canonical(total),
            "payments": len(paid[currency, is_on_top]),
            "is": "on top" if is_on_top else "out of what is sent",
        }
        for (currency, is_on_top), total in sorted(totals.items())
    ]


def _is_quoted_fee(desk: Desk, row: PayoutRow) -> bool:
    """Tell whether a quote says what a row costs: the service estimates fees of withdrawals alone (public fact 5.10).

    A fee on top is estimated all the same: the plan counts it.
    """
    return row.route is Route.QUOTED and row.way.operation not in desk.account.rules.fee_on_top


@exact
def _groups(rows: Iterable[PayoutRow], names: Mapping[tuple[Place, str], str]) -> list[dict[str, Any]]:
    """Number and sum of payments by country, route and bank; countries and banks by name, where one is known."""
    counts: Counter[tuple[str, str]] = Counter()
    sums: dict[tuple[str, str], dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for row in rows:
        amount, currency = row.amount, row.currency
        if amount is None:
            amount, currency = row.receive_amount or Decimal(0), row.receive_currency
        named = {"country": _with_name(row.country, country_name(row.country or "")), "route": row.route.value}
        if row.way.country is not None:
            named["bank"] = _with_name(f"{row.country} {row.bank}", names.get((place_of(row), row.bank or "")))
        for group in ((kind, name) for kind, name in named.items() if name is not None):
            counts[group] += 1
            sums[group][currency] += amount
    found: list[dict[str, Any]] = []
    for kind in ("country", "route", "bank"):
        largest = sorted((group for group in counts if group[0] == kind), key=lambda group: (-counts[group], group))
        for group in largest[:MAX_GROUPS]:
            said = {currency: format_amount(total) for currency, total in sorted(sums[group].items())}
            found.append({"kind": kind, "name": group[1], "payments": counts[group], "sums": said})
        if len(largest) > MAX_GROUPS:
            rest = sum(counts[group] for group in largest[MAX_GROUPS:])
            found.append({"kind": kind, "name": f"{len(largest) - MAX_GROUPS} more", "payments": rest, "sums": {}})
    return found


def _with_name(code: str | None, name: str | None) -> str | None:
    return f"{name} ({code})" if name else code


def gaps_of(shown: Mapping[str, Any]) -> list[str]:
    """Currencies whose balance does not reach, each with what is missing; none where conversions close the gaps."""
    return [
        f"{each['remains'].removeprefix('-')} {each['currency']}"
        for each in shown.get("funding", ())
        if not shown.get("conversions") and each["remains"] is not None and parse_amount(each["remains"]) < 0
    ]
