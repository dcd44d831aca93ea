"""A plan as people see it before they say yes: lines on a terminal, a page, a workbook, and a page in Prefect."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from treasury.approving.judging import ApprovalJudgement
from treasury.files import write_text
from treasury.ledger.proposals import WaitingPlan
from treasury.masking import mask
from treasury.money import format_amount, parse_amount
from treasury.planning.shown import COLUMNS, TWO_NAMES
from treasury.reports.markup import amount, rendered
from treasury.texts import approval_command, count_of, without_markup

TITLES: Mapping[str, str] = {
    "row_ref": "row",
    "payee": "payee",
    "account": "account or address",
    "bank": "bank or network",
    "country": "country",
    "amount": "amount",
    "currency": "currency",
    "receive_amount": "receives",
    "receive_currency": "in",
    "at_most": "at most",
    "note": "note",
}
"""Column of a payment -> what people read above it."""

AMOUNTS = {"amount": "currency", "receive_amount": "receive_currency", "at_most": "currency"}
"""Column of an amount -> the column of its currency."""

MAX_LINES = 200
"""Payments that a terminal and Prefect show; `plan.html` has as many as `MAX_ROWS`, `plan.xlsx` all."""

MAX_ROWS = 5_000

MAX_LEFT_OUT = 20
"""Rows that are left out and named on a page; `plan.json` and `errors.csv` have all."""

MAX_NAMED = 10
"""Rows that one line names."""

MAX_NOTED = 20
"""Payments with a note that a terminal shows of a plan that somebody looks at."""


Facts = list[tuple[str, str]]
"""Facts to know of a plan before its payments, as names and values."""


@dataclass(frozen=True)
class PlanPage:
    """The content of a plan's page, whatever it is shown on."""

    title: str
    made_at: int
    """Unix milliseconds."""
    facts: Facts
    rows: Sequence[Mapping[str, Any]]
    """Its payments, those that need a look first."""
    run_key: str
    lead: str = ""
    """All of it in one sentence."""

    @property
    def fold(self) -> Facts:
        """The facts that nobody needs to decide, which a page folds away."""
        return [each for each in self.facts if _rank(each[0]) == FOLDED]

    @property
    def open_facts(self) -> Facts:
        """The facts that are seen at once."""
        return [each for each in self.facts if _rank(each[0]) != FOLDED]


def waiting_page(plan: WaitingPlan, judged: ApprovalJudgement, by_name: str | None = None) -> PlanPage:
    """The page of a plan that waits for approvals."""
    title, facts = f"Plan of {plan.run_key} waits for approval", _in_order(_facts_of(plan, judged, by_name))
    return PlanPage(title, plan.proposed_at, facts, rows_of(plan.shown), plan.run_key, lead_of(plan.shown or {}))


def preview_page(shown: Mapping[str, Any], made_at: int) -> PlanPage:
    """The page of a plan that somebody looks at."""
    facts = [("Run", str(shown["run_key"])), ("Plan", str(shown["plan_sha256"]))]
    facts += [("Asks for approvals because", each) for each in shown.get("why", ())]
    if shown.get("approvals"):
        facts.append(("Note", str(shown["approvals"])))
    title = f"Plan of {shown['run_key']}"
    facts = _in_order([*facts, *_rehearsal(shown), *_sums(shown)])
    return PlanPage(title, made_at, facts, rows_of(shown), str(shown["run_key"]), lead_of(shown))


def lead_of(shown: Mapping[str, Any]) -> str:
    """Say a payout plan in one sentence: how many payments, what leaves at the most, what arrives."""
    if shown.get("kind") != "payout":
        return ""
    new = f" to {shown['new_payees']} new payees" if shown.get("new_payees") else ""
    leaves = " and ".join(f"{total} {currency}" for currency, total in leaves_of(shown).items()) or "nothing"
    certain = [f"{total} {currency}" for currency, total in shown["receipts"].items()]
    about = [
        f"about {each['amount']} {each['currency']}" for each in shown.get("arrives", ()) if "before" in each["is"]
    ]
    arrives = f", {', '.join(certain + about)} arrive" if certain or about else ""
    held = f"; {shown['held']} of them will be held" if shown.get("held") else ""
    return f"{count_of(shown['payments'], 'payment')}{new}: at most {leaves} leave{arrives}{held}."


def leaves_of(shown: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the most that leaves, by currency: with the fees on top, where there are any."""
    found: Mapping[str, str] = shown.get("at_most") or shown.get("debits", {})
    return found


FOLDED = 3

RANKS: Mapping[str, int] = {
    **dict.fromkeys(
        (
            *("NOT FUNDED", "CANNOT BE FUNDED", "Gap", "Will be held", "Known name", "Paid for the first time"),
            *("Look like earlier payments", "Debits without a bound", "Does not count", "Left out", "Changes"),
            *("Beside run", "Of the past", "Not answered by the service", "Partly", "REHEARSAL"),
        ),
        0,
    ),
    **dict.fromkeys(
        (
            "Made by",
            "Proposed at",
            "Approve with",
            "Needs",
            "Approved by",
            "Because",
            "Note",
            "Asks for approvals",
            "Ends at",
        ),
        2,
    ),
    **dict.fromkeys(
        ("Run", "Plan", "By country", "By route", "By bank", "Read from the sheet", "Largest", "Of this", "Policy"),
        FOLDED,
    ),
}
"""How a fact begins -> its place: 0 what needs a look, 1 figures, 2 who decides and how, 3 the rest."""


def _rank(name: str) -> int:
    return next((rank for start, rank in RANKS.items() if name.startswith(start)), 1)


def _in_order(facts: Facts) -> Facts:
    """The facts by their places, each place as it was."""
    return sorted(facts, key=lambda each: _rank(each[0]))


def _facts_of(plan: WaitingPlan, judged: ApprovalJudgement, by_name: str | None) -> Facts:
    shown = plan.shown or {}
    found = [("Run", plan.run_key), ("Made by", plan.maker.name), ("Proposed at (UTC)", _time(plan.proposed_at))]
    how = approval_command(plan.run_key, plan.code, is_listed=by_name is None)
    found += [("Plan", plan.sha256), ("Approve with", how)]
    missing = plan.needed - len(judged.counted)
    needs = f"{count_of(plan.needed, 'approval')}; " + (f"{missing} more" if missing > 0 else "it has them")
    found += [("Needs", needs), ("Approved by", ", ".join(judged.counted) or "nobody yet")]
    found += [("Does not count", each) for each in judged.refused]
    found += [("Because", each) for each in shown.get("why", ())]
    if plan.ends_at is not None:
        found.append(("Ends at (UTC)", _time(plan.ends_at)))
    if by_name is not None:
        found.append(("Note", by_name))
    return [*found, *_rehearsal(shown), *_sums(shown)]


def _rehearsal(shown: Mapping[str, Any]) -> Facts:
    said = shown.get("rehearsal")
    return [("REHEARSAL", str(said).removeprefix("REHEARSAL: "))] if said else []


ESTIMATED = "what the service says they cost, with a margin; nothing that is sent enforces it"
BESIDES = ", without the payments below"
WHY_UNBOUNDED = (
    "they fix what is received, only their quotes say what they debit, and nothing bounds it: give max_pay_amount in "
    "the sheet, or max_per_payout in the policy"
)


def _debits(shown: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for currency, total in leaves_of(shown).items():
        yield "Debits at most", f"{total} {currency}" + (BESIDES if currency in shown.get("unbounded", {}) else "")
    for currency, total in shown.get("on_top", {}).items():
        yield "Of this, fees on top", f"{total} {currency}: {ESTIMATED}"
    for currency, count in shown.get("unbounded", {}).items():
        yield "Debits without a bound", f"{count_of(count, 'payment')} in {currency}: {WHY_UNBOUNDED}"


def _sums(shown: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "payments" in shown:
        waits = f", of which {shown['waiting']} did not leave yet" if "waiting" in shown else ""
        yield "Payments", f"{shown['payments']}{waits}"
    yield from _debits(shown)
    for currency, total in shown.get("receipts", {}).items():
        yield "Beneficiaries receive", f"{total} {currency}"
    for currency, total in shown.get("recorded", {}).items():
        yield "Recorded of this run before", f"{total} {currency}: limits and approvals count it, too"
    if ceilings := _ceilings(shown.get("rows", ())):
        for currency, total in ceilings.items():
            how = "what quotes may ask at the most" if shown.get("is_enforced", True) else ESTIMATED
            yield "Of this, as ceilings", f"{total} {currency}: {how}"
    for name, title in (
        ("held", "Will be held"),
        ("changed_payees", "Known name, other account"),
        ("new_payees", "Paid for the first time"),
        ("two_names", "One account, two names"),
        ("duplicates", "Look like earlier payments"),
    ):
        if shown.get(name):
            yield title, f"{count_of(shown[name], 'payment')}, see the notes"
    yield from _beside(shown.get("beside"))
    if shown.get("largest"):
        yield "Largest", ", ".join(shown["largest"])
    yield from (("Changes", change) for change in shown.get("changes", ()))
    yield from (("Of the past", line) for line in shown.get("met", ()))
    yield from (("Policy", line) for line in shown.get("policy", ()))
    yield from _funds(shown)
    for group in shown.get("groups", ()):
        sums = ", ".join(f"{total} {currency}" for currency, total in group["sums"].items())
        counted = f"{group['name']}: {count_of(group['payments'], 'payment')}"
        yield f"By {group['kind']}", f"{counted}, {sums}" if sums else counted
    yield from (("Read from the sheet", note) for note in shown.get("notes", ()))
    yield from left_out_of(shown)
    if shown.get("not_asked"):
        yield "Not answered by the service", ", ".join(shown["not_asked"])


def _beside(beside: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """The differences of a run to the last one that paid the same people."""
    if beside is None:
        return
    title, found = f"Beside run {beside['run_key']}", False
    for name, words in (("gone", "not paid now"), ("new", "not paid there")):
        if refs := beside[name]:
            more = "" if len(refs) <= MAX_NAMED else f" and {len(refs) - MAX_NAMED} more"
            yield title, f"{len(refs)} {words}: {', '.join(refs[:MAX_NAMED])}{more}"
            found = True
    for name, words in (("changed", "another amount"), ("renamed", "another name")):
        if refs := beside[name]:
            yield title, f"{count_of(len(refs), 'payment')} with {words}, see the notes"
            found = True
    if not found:
        yield "As in the last run", f"the same payees as run {beside['run_key']}, and about the same amounts"
    yield from (("Total", each) for each in beside["totals"])


def left_out_of(shown: Mapping[str, Any]) -> Facts:
    """The rows that are left out, by row, each with what is wrong with it."""
    rows = shown.get("left_out", ())
    found = [("Left out", f"{count_of(len(rows), 'row')}, not paid")] if rows else []
    for row in rows[:MAX_LEFT_OUT]:
        who = f"{row['row_ref']}: " if row["row_ref"] else ""
        found.append((f"Left out: row {row['row']}", who + row["problem"]))
    if len(rows) > MAX_LEFT_OUT:
        found.append(("Left out", f"and {len(rows) - MAX_LEFT_OUT} more: errors.csv has all"))
    return found


def _funds(shown: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for each in shown.get("funding", ()):
        currency = each["currency"]
        if each["balance"] is None:
            yield f"Balance of {currency}", "not known: the service did not say"
            continue
        flying = f"; {each['in_flight']} of it may still go to earlier runs" if each["in_flight"] != "0" else ""
        yield f"Balance of {currency}", f"{each['balance']} when this was made{flying}"
        if each["estimated"] != "0":
            said = f"{each['estimated']} {currency}, by the rate of now, for rows whose debit only a quote can say"
            yield f"Estimated: {currency}", said
        before = _before(each)
        if each["remains"].startswith("-") and shown.get("conversions"):
            yield (
                f"Gap: {currency}",
                f"{each['remains'][1:]} {currency} are missing before fees, and are converted first",
            )
        elif each["remains"].startswith("-"):
            yield f"NOT FUNDED: {currency}", f"{each['remains'][1:]} {currency} are missing{before}"
        else:
            yield f"Funded: {currency}", f"{each['remains']} {currency} remain{before}"
    for each in shown.get("paid_first", ()):
        yield "Paid before it", f"{each}: it was recorded before, and counts in what is needed"
    for each in shown.get("conversions", ()):
        yield "Converted first", each
    if shown.get("unfunded"):
        yield "CANNOT BE FUNDED", str(shown["unfunded"])
    if shown.get("partly"):
        yield (
            "Partly",
            "where the balance does not reach for all rows, those that it reaches for are paid, in order",
        )
    for each in shown.get("arrives", ()):
        yield "Arrives", f"{each['amount']} {each['currency']} ({each['is']})"
    yield from _costs(shown)


def _before(funding: Mapping[str, Any]) -> str:
    """Return what else may be debited: fees, unless all are inside what was counted, and rows that nobody can price."""
    open_ends = ["fees"] if funding["estimated"] != "0" or funding.get("fees_on_top", True) else []
    if funding["not_known"]:
        open_ends.append(f"{count_of(funding['not_known'], 'row')} whose debit nobody knows yet")
    return f", before {', and before '.join(open_ends)}" if open_ends else ""


def _costs(shown: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for each in shown.get("fees", ()):
        many = count_of(each["payments"], "payment")
        yield "Fees (estimate)", f"{each['fee']} {each['currency']} for {many}, {each['is']}, says the service"
    if shown.get("fees_quoted"):
        many = count_of(shown["fees_quoted"], "payment")
        yield "Fees (quoted)", f"{many}: each quote says its own, and none is estimated here"


def _ceilings(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    sums: dict[str, Any] = {}
    for row in rows:
        if row.get("at_most") is not None:
            sums[row["currency"]] = sums.get(row["currency"], 0) + parse_amount(row["at_most"])
    return {currency: format_amount(total) for currency, total in sorted(sums.items())}


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def rows_of(shown: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The payments of what is shown of a plan."""
    return sorted((shown or {}).get("rows", ()), key=_risk)


def _risk(row: Mapping[str, Any]) -> int:
    """Order payments: held ones, then names and accounts that do not fit, then what else has a note, then the rest."""
    note = str(row.get("note") or "")
    found = [at for at, begins in enumerate(_RISKS) if any(part.startswith(begins) for part in note.split("; "))]
    return min(found, default=len(_RISKS)) if note else len(_RISKS) + 1


_RISKS = (("will be held",), ("this name was paid to another account", TWO_NAMES))
"""How notes begin, those first that are shown first."""


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns that any of these payments fills."""
    return [name for name in COLUMNS if any(row.get(name) is not None for row in rows)]


def as_lines(page: PlanPage, *, only_noted: bool = False) -> Iterator[str]:
    """The plan on a terminal; `only_noted`: of its payments those with a note."""
    if page.lead:
        yield f"  {page.lead}"
    yield from facts_as_lines(page.facts)
    rows = [row for row in page.rows if row.get("note")] if only_noted else page.rows
    columns, most = columns_of(rows), MAX_NOTED if only_noted else MAX_LINES
    for row in rows[:most]:
        yield "  " + "  ".join(str(row[name]) for name in columns if row.get(name) is not None)
    if len(rows) > most:
        yield f"  and {len(rows) - most} more: plan.xlsx has all"


def facts_as_lines(facts: Facts) -> Iterator[str]:
    """Names and values on a terminal."""
    return (f"  {name + ':':28}{value}" for name, value in facts)


def as_markdown(page: PlanPage) -> str:
    """The plan in Prefect: names and accounts masked, for whoever sees the dashboard sees it."""
    lines = [f"# {_cell(page.title)}", "", *([_cell(page.lead), ""] if page.lead else []), "| | |", "|---|---|"]
    lines += [f"| {name} | {_cell(value)} |" for name, value in page.facts]
    rows = [_masked(row) for row in page.rows[:MAX_LINES]]
    if rows:
        columns = columns_of(rows)
        lines += ["", "| " + " | ".join(TITLES[name] for name in columns) + " |", "|" + "---|" * len(columns)]
        lines += ["| " + " | ".join(_cell(row.get(name)) for name in columns) + " |" for row in rows]
    if (rest := len(page.rows) - MAX_LINES) > 0:
        lines += ["", f"{rest} more: `treasury show {page.run_key}` writes all of them into plan.xlsx."]
    return "\n".join(lines) + "\n"


def as_form(page: PlanPage, refused: str | None) -> str:
    """The plan above the form that asks for an approval: its totals, without its payments.

    `refused`: why what was given last does not count.
    """
    lines = [f"**Not approved:** {_cell(refused)}", ""] if refused else []
    lines += [f"**{_cell(page.title)}**", "", *([_cell(page.lead), ""] if page.lead else [])]
    return "\n".join([*lines, *(f"- {name}: {_cell(value)}" for name, value in page.open_facts)]) + "\n"


def _masked(row: Mapping[str, Any]) -> dict[str, Any]:
    personal = {name: mask(row[name]) for name in ("payee", "account") if row.get(name) is not None}
    return {**row, **personal}


def _cell(value: object) -> str:
    return "" if value is None else without_markup(str(value))


def write_plan(folder: Path, page: PlanPage) -> list[Path]:
    """Write `plan.html` and `plan.xlsx` into a folder; returns their paths."""
    html, workbook = folder / "plan.html", folder / "plan.xlsx"
    write_text(html, _html(page))
    _write_workbook(workbook, page)
    return [html, workbook]


def _html(page: PlanPage) -> str:
    rows, columns = page.rows, columns_of(page.rows)
    return rendered(
        "plan.html.j2",
        run_key=page.run_key,
        lead=page.lead,
        facts=[(name, value, _rank(name) == 0) for name, value in page.open_facts],
        fold=page.fold,
        columns=columns,
        titles=TITLES,
        rows=rows[:MAX_ROWS],
        more=max(0, len(rows) - MAX_ROWS),
        amount=amount,
        amounts=AMOUNTS,
    )


def _write_workbook(path: Path, page: PlanPage) -> None:
    from treasury.reports.spreadsheets import Column, WrittenBook

    book = WrittenBook(path, _time(page.made_at), f"Plan of {page.run_key}")
    sheet = book.sheet("Plan")
    sheet.set_column(0, 0, 26)
    sheet.set_column(1, 1, 100)
    for row, (name, value) in enumerate(page.facts):
        book.text(sheet, row, 0, name, book.header)
        book.text(sheet, row, 1, value)
    columns = [
        Column(TITLES[name], name, 60 if name == "note" else 20, "money" if name in AMOUNTS else "text")
        for name in columns_of(page.rows)
    ]
    if columns:
        book.list_sheet("Payments", "What is paid; amounts as the sheet has them.", columns, page.rows)
    book.finish()
