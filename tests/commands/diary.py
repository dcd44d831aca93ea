"""The acts of a script that lives a month at one office, each compared with the books kept by hand."""

import csv
import json
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

from tests.commands import people_read
from tests.commands.approvers import code_of, key
from tests.commands.november import (
    ARRIVES,
    FIAT_FEE,
    OPENING,
    QUOTED,
    Books,
    Paid,
    Row,
    by_currency,
    fee_of,
    write_sheet,
)
from tests.commands.office import Ended, Office
from tests.moved_clock import MovedClock
from treasury.sandbox import RunningSandbox
from treasury.texts import count_of

D = Decimal
NOVEMBER = 1_793_462_400.0
"""Sunday, 2026-11-01, midnight in Singapore; in UTC it is 16 o'clock of the day before."""
COLD_STORE = "TDBaAMzsQ3d7xqqgw8CWCzbAZGPdARHsMa"
DAY, HOUR = 86_400, 3_600
Sums = dict[str, Decimal]


class Month:
    """An office on a clock that is moved, the service that it pays at, and the books kept by hand."""

    def __init__(self, office: Office, sandbox: RunningSandbox, clock: MovedClock) -> None:
        self.office, self.sandbox, self.clock, self.books = office, sandbox, clock, Books()
        self.today = 0
        self.kept: dict[str, list[Paid]] = {}
        """Payments of which another day will tell."""
        self.last_report: dict[str, Any] = {}

    def at(self, day: int, hour: int) -> None:
        """The clock is moved to this hour in Singapore, on a day of November; the other side does what is due."""
        self.clock.move(NOVEMBER + (day - 1) * DAY + hour * HOUR - self.clock.wall())
        self.sandbox.orders()
        self.today = day

    def run(self, *arguments: object, code: int = 0) -> Ended:
        """Run a command that has to end with this code."""
        ended = self.office.run(*arguments)
        assert ended.code == code, f"day {self.today}: {arguments} ended with {ended.code}\n{ended.out}{ended.err}"
        return ended

    # --- a night ---------------------------------------------------------------------------------------------------

    def night(self, day: int, last: str, code: int = 0) -> dict[str, Any]:
        """At 23 o'clock the report is made: it ends in this line, and every figure is that of the books by hand."""
        self.at(day, 23)
        ended, name = self.run("reconcile", code=code), f"night of November {day}"
        assert ended.last == last, f"{name}: {ended.out}"
        report, statement, balances = people_read.night_figures(self.office.home / "nights" / f"2026-11-{day:02}")
        assert report["as_of"][:13] == f"2026-11-{day:02}T15", name
        assert set(balances) == set(OPENING), name
        fees = {each["currency"]: (each["orders"], D(each["amount"]), D(each["fees"])) for each in report["fees"]}
        assert fees == self.books.fees, name
        for currency in OPENING:
            assert balances[currency] == self.books.balance(currency), f"{name}: balance proof of {currency}"
            wanted = self.books.statement(currency)
            line = statement.get(currency, dict.fromkeys(wanted, D(0)))
            assert line == wanted, f"{name}: statement of {currency}"
        page = (self.office.home / "nights" / f"2026-11-{day:02}" / "reconciliation.md").read_text()
        is_calm = report["verdict"] in ("reconciled", "pending")
        assert ("to look at" in page) is not is_calm, f"{name}: the page asks for a look where nobody is needed"
        self.check_balances()
        self.books.turn_the_page()
        self.last_report = report
        return report

    def quiet_nights(self, days: Iterable[int], last: str) -> None:
        """Nights of days on which nothing happens."""
        for day in days:
            self.night(day, last)

    def check_balances(self) -> None:
        """Every line of `treasury balance` says what the books by hand say, and so does the other side."""
        theirs = self.sandbox.books()["balances"]
        out = self.run("balance").out
        for currency, amount in self.books.balances.items():
            held = self.books.night[currency]["closing_in_flight"]
            there = theirs["available"].get(currency, D(0)) + theirs["hold"].get(currency, D(0))
            assert there == amount, f"day {self.today}: the other side has {there} {currency}"
            line = f"{currency}: {plain(amount)}  held for orders {plain(held)}"
            if waiting := self.books.recorded.get(currency):
                line += f"  may still be debited {plain(waiting)}"
            if strange := self.books.strangers[currency]:
                line += f"  unexplained {plain(strange)}"
            assert line in out.splitlines(), f"day {self.today}: balance of {currency}: {out}"

    def standing(self) -> dict[str, Any]:
        """Return what `treasury status --json` says, without the backup that this office never makes."""
        ended = self.office.run("status", "--json")
        found: dict[str, Any] = json.loads(ended.out)
        assert ended.code == 4, f"day {self.today}: a backup is due, at least"
        found["needs"] = [each for each in found["needs"] if "backup" not in each]
        return found

    def check_payees(self) -> None:
        """`treasury payees` says of each account what arrived there, by the books kept by hand."""
        wanted = self.books.by_account()
        out = self.run("payees").out
        for (country, account), sums in wanted.items():
            [said] = re.findall(rf"^{country} \d+ \*\*\*{account[-4:]}  .*Z  (\d.*)  treasury payee", out, re.MULTILINE)
            found = {each.split()[1]: D(each.split()[0]) for each in said.split(", ")}
            assert found == sums, f"day {self.today}: {country} {account}"

    def accept(self, name: str, report: dict[str, Any], why: str, *, who: str = "ben") -> None:
        """Every break of this class is accepted by somebody's key."""
        found = [each["id"] for each in report["breaks"] if each["class"] == name and each["accepted"] is None]
        assert found, f"day {self.today}: no {name}"
        for each in found:
            self.run("accept", each, "--key", key(self.office, who), "--why", why)

    # --- a run -----------------------------------------------------------------------------------------------------

    def sheet(self, run_key: str, rows: Sequence[Row]) -> Path:
        """The sheet of a run."""
        return write_sheet(self.office.home / f"{run_key}.csv", rows)

    def look(self, run_key: str, rows: Sequence[Row]) -> None:
        """A dry run: its sums are those of the sheet."""
        ended = self.run("pay", self.sheet(run_key, rows), "--run-key", run_key, "--dry-run")
        name, debits, receipts = f"day {self.today}, look at {run_key}", at_most(rows), arriving(rows)
        assert ended.last == f"{count_of(len(rows), 'payment')} planned, nothing was sent", name
        folder = self.office.home / "runs" / run_key
        for title, sums in (("Debits at most", debits), ("Beneficiaries receive", receipts)):
            assert people_read.printed_sums(ended.out, title) == people_read.plan_sums(folder, title) == sums, name
        [lead] = re.findall(r"at most (.*) leave", ended.out)
        assert {each.split()[1]: D(each.split()[0]) for each in lead.split(" and ")} == debits, name
        fees = by_currency((row.currency, fee_of(row, row.pays)) for row in rows if row.pays and not is_quoted(row))
        assert people_read.printed_sums(ended.out, "Fees (estimate)") == fees, name
        for currency, most in debits.items():
            balance = self.books.balances[currency] - self.books.night[currency]["closing_in_flight"]
            assert f"  {'Balance of ' + currency + ':':28}{plain(balance)} when this was made" in ended.out, name
            [(remains, more)] = re.findall(rf"Funded: {currency}: +(\S+) {currency} remain(.*)", ended.out)
            if f"Estimated: {currency}" in ended.out:  # quotes of the first month say what fees to expect
                assert (D(remains) >= balance - most, more) == (True, ", before fees"), name
            else:
                assert (D(remains), more) == (balance - most, ""), name
        countries = {row.country for row in rows}
        for country in countries:
            of_country = [row for row in rows if row.country == country]
            [(count, sums)] = re.findall(rf"By country: +[\w ]+\({country}\): (\d+) payments?, (.*)", ended.out)
            said = {each.split()[1]: D(each.split()[0]) for each in sums.split(", ")}
            assert (int(count), said) == (len(of_country), certain(of_country) | arriving(of_country)), name

    def approved(self, run_key: str, line: Sequence[object], sums: Sums, *who: str) -> None:
        """A command waits for approvals; these people see these sums, and approve by their keys."""
        code = code_of(self.office.run(*line))
        for name in who:
            shown = people_read.printed_sums(self.run("show", run_key).out, "Debits at most")
            assert shown == sums, f"day {self.today}: what {name} sees of {run_key}"
            more = 0 if name == who[-1] else 3
            self.run("approve", run_key, "--plan", code, "--key", key(self.office, name), code=more)

    def pay_line(self, run_key: str, rows: Sequence[Row], *more: str) -> list[object]:
        """The command that pays these rows."""
        return ["pay", self.sheet(run_key, rows), "--run-key", run_key, "--yes", *more]

    def pay(
        self,
        run_key: str,
        rows: Sequence[Row],
        last: str,
        *more: str,
        approvers: Sequence[str] = (),
        code: int = 0,
        before: int | None = None,
    ) -> list[Paid]:
        """Pay rows, with the approvals that they need; what left, as the other side took it.

        `before`: how many orders the other side had before the run began.
        """
        line = self.pay_line(run_key, rows, *more)
        if approvers:
            self.approved(run_key, line, at_most(rows), *approvers)
        before = len(self.sandbox.orders()) if before is None else before
        ended = self.run(*line, code=code)
        name = f"day {self.today}, run {run_key}"
        assert ended.last == last, f"{name}: {ended.out}"
        assert people_read.printed_sums(ended.out, "debit") == at_most(rows), name
        assert people_read.printed_sums(ended.out, "beneficiaries receive") == arriving(rows), name
        payments = self.took(rows, before)
        self.books.leave(payments)
        return payments

    def pay_again(self, run_key: str, failed_of: str, rows: Sequence[Row], last: str) -> list[Paid]:
        """Pay these rows, which failed in another run, as they were."""
        before = len(self.sandbox.orders())
        ended = self.run("pay", "--only-failed-of", failed_of, "--run-key", run_key, "--yes")
        name = f"day {self.today}, run {run_key}"
        assert ended.last == last, f"{name}: {ended.out}"
        assert people_read.printed_sums(ended.out, "debit") == at_most(rows), name
        payments = self.took(rows, before)
        self.books.leave(payments)
        return payments

    def remaining(self, run_key: str) -> dict[str, str]:
        """Return what remains of a run: row -> the payment that another one may replace."""
        with (self.office.home / "runs" / run_key / "remaining.csv").open(newline="", encoding="utf-8") as opened:
            return {row["row_ref"]: row["replaces"] for row in csv.DictReader(opened)}

    def dies(self, point: str, hits: int, *line: object) -> None:
        """Start a command in a process of its own, one request at a time; SIGKILL ends it at this crash point."""
        moved = self.clock.wall() - NOVEMBER
        start = ("-m tests.commands.dying", str(NOVEMBER), str(moved), point, str(hits))
        ended = self.office.process(*start[1:], *line, runs=start[0], TREASURY_IN_FLIGHT="1")
        assert ended.code == -signal.SIGKILL, ended

    def withdraw(self, run_key: str, amount: str, approver: str) -> list[Paid]:
        """Withdraw an amount to the cold store, which arrives at once."""
        row = Row(f"{run_key}-1", "", "USDT_TRC20", D(amount))
        text = f"row_ref,currency,address,amount,customer_ref_id\n{row.ref},{row.currency},{COLD_STORE},{amount},own\n"
        line = ["withdraw", self.office.file(f"{run_key}.csv", text), "--run-key", run_key, "--yes"]
        self.approved(run_key, line, {row.currency: D(amount)}, approver)
        before = len(self.sandbox.orders())
        assert self.run(*line).last == "1 settled", f"day {self.today}"
        payments = self.took([row], before)
        self.books.leave(payments)
        self.books.arrive(payments)
        self.results(run_key, settled=payments)
        return payments

    def took(self, rows: Sequence[Row], before: int) -> list[Paid]:
        """The rows as the other side's orders since then took them, each once, by its own rules."""
        orders = self.sandbox.orders()[before:]
        assert len(orders) == len(rows), f"day {self.today}: {len(orders)} orders of {len(rows)} rows"
        return [self.took_one(row, orders) for row in rows]

    def took_one(self, row: Row, orders: Sequence[dict[str, Any]]) -> Paid:
        """One row as the other side took it: its rate says what a fixed receipt costs, the sheet all else."""
        wanted = (row.currency, row.pays) if row.receives is None else (ARRIVES[row.country], row.receives)
        names = ("currency", "amount") if row.receives is None else ("credit_currency", "credit")
        [order] = [order for order in orders if tuple(order[name] for name in names) == wanted]
        debit, fee = D(order["debit"]), fee_of(row, order["debit"])
        assert (order["fee"], order["effects"]) == (fee, 1), f"day {self.today}: {row}"
        if row.receives is not None and row.most is not None:
            rate = D(order["metadata"]["exchangeRate"])
            assert debit == (row.receives / rate).quantize(D("0.000001"), ROUND_CEILING) + FIAT_FEE <= row.most, row
        elif row.country in QUOTED:
            rate = D(order["metadata"]["exchangeRate"])
            assert order["credit"] == ((debit - FIAT_FEE) * rate).quantize(D("0.01"), ROUND_FLOOR), row
        return Paid(row, debit, fee, order["credit"])

    def results(self, run_key: str, **outcomes: Sequence[Paid]) -> None:
        """The results of a run that has just ended, as it wrote them and as `treasury results` does."""
        self._results(run_key, outcomes, has_just_ended=True)

    def results_now(self, run_key: str, **outcomes: Sequence[Paid]) -> None:
        """The results of a run of another day, once `treasury results` has written them anew, and `treasury show`."""
        self._results(run_key, outcomes, has_just_ended=False)

    def _results(self, run_key: str, outcomes: Mapping[str, Sequence[Paid]], *, has_just_ended: bool) -> None:
        folder, name = self.office.home / "runs" / run_key, f"day {self.today}, results of {run_key}"
        wanted = {}
        for outcome, payments in outcomes.items():
            for currency, total in by_currency((each.row.currency, each.debit) for each in payments).items():
                count = sum(each.row.currency == currency for each in payments)
                wanted[outcome, currency] = (count, total)
        assert not has_just_ended or people_read.result_sums(folder) == wanted, name
        trouble = set(outcomes) - {"settled", "in_progress"}
        self.run("results", run_key, code=4 if trouble else 0)
        assert people_read.result_sums(folder) == wanted, name
        settled = outcomes.get("settled", ())
        rows = [row for row in self.office.results(run_key).values() if row["outcome"] == "settled"]
        for cell, figure in (("final_amount", "debit"), ("fee", "fee")):
            sums = by_currency((row["currency"], D(row[cell])) for row in rows)
            assert sums == by_currency((each.row.currency, getattr(each, figure)) for each in settled), (name, cell)
        receipts = by_currency(
            (row["receive_currency"], D(row["final_receive_amount"])) for row in rows if row["final_receive_amount"]
        )
        assert receipts == by_currency((ARRIVES[p.row.country], p.arrives) for p in settled if is_quoted(p.row)), name
        assert {row["value_date"] for row in rows} <= {f"2026-11-{self.today:02}"}, name
        everything = [each for payments in outcomes.values() for each in payments]
        shown = self.run("show", run_key)
        assert people_read.shown_sums(shown.out) == by_currency((p.row.currency, p.debit) for p in everything), name
        counts = {"settled": 0} | {outcome: len(payments) for outcome, payments in outcomes.items()}
        said = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in counts.items())
        assert shown.last == said, name


def plain(amount: Decimal) -> str:
    """An amount as it is printed: no zeros at its end."""
    return f"{amount.normalize():f}"


def is_quoted(row: Row) -> bool:
    """Tell whether a row is paid by a quote."""
    return row.country in QUOTED


def certain(rows: Iterable[Row]) -> Sums:
    """Sums of what the sheet says is debited."""
    return by_currency((row.currency, row.pays) for row in rows if row.pays is not None)


def at_most(rows: Iterable[Row]) -> Sums:
    """Sums of the most that is debited: what the sheet says, or its limit where what arrives is fixed."""
    return by_currency((row.currency, row.pays or row.most or D(0)) for row in rows)


def arriving(rows: Iterable[Row]) -> Sums:
    """Sums of what arrives, where the sheet fixes that."""
    return by_currency((ARRIVES[row.country], row.receives) for row in rows if row.receives is not None)


def parts_of(payments: Sequence[Paid], failed: Sequence[str]) -> tuple[list[Paid], list[Paid]]:
    """The payments without those of these rows, and those."""
    return [each for each in payments if each.row.ref not in failed], [p for p in payments if p.row.ref in failed]
