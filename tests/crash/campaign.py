"""Kill, restart, compare: many cases, each made from its seed alone.

    python -m tests.crash.campaign --kills 5000 [--workers 2]     until so many processes were killed
    python -m tests.crash.campaign --seed 137                     one case again
    TREASURY_HTTP_ENGINE=httpx                                    with that engine
    python -m tests.crash.campaign --sheets --kills 300           withdrawals, codes, invoices, addresses
    (--ledger postgresql keeps the ledgers in a PostgreSQL server that is started for it)

The first seeds go through every point for every kind of payment; later ones kill at points and instants drawn from the
seed, while the service also drops requests and answers. In every case the service acts a second time on a reference
that it acted on before, so a payment that is sent again after it acted shows as a second effect.
"""

import argparse
import json
import logging
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.cases import LONG, Case, Death, make_case, make_sheet_case
from tests.crash.driver import DONE, HELD
from tests.crash.kinds import kind_of
from tests.crash.oracle import Verdict, judge
from tests.crash.payments import PARTNER_ID, ask_quotes
from tests.crash.people import Place, confirmed_in, still_meant
from tests.crash.sheets import customers_pay, judge_results
from tests.parts import postgresql
from treasury.provider.client import Account, Client
from treasury.sandbox import RunningSandbox, SandboxClock, SandboxSettings, generate_key_pair, running_sandbox

FIRST_TIME = 1_790_000_000.0
MAX_STARTS = 25
PATIENCE = 12
"""Starts after which what does not change is taken for the end: a quote has to end, and two queries to be apart."""
RESEND_AFTER = 0.05
ROOT = Path(__file__).parents[2]


@dataclass
class Result:
    """A record of what became of a case."""

    case: Case
    verdict: Verdict
    books: dict[str, Any]
    kills: Counter[str]
    starts: int
    log: str
    restores: int = 0
    cancelled: int = 0
    """Rows of which a person was told that they are cancelled."""


def _copy(home: Path) -> None:
    shutil.copytree(home, home / "copy", ignore=shutil.ignore_patterns("copy", "log.txt"), dirs_exist_ok=True)


def _put_back(home: Path, what: str) -> None:
    """As people restore: files deleted and copied, the ledger's file alone, or its content over the same file."""
    copy = home / "copy"
    if not (copy / "ledger.db").exists():
        return
    if what == "in place":
        with closing(sqlite3.connect(copy / "ledger.db")) as old, closing(sqlite3.connect(home / "ledger.db")) as new:
            old.backup(new)
        for token in (home / "tokens").glob("*.token"):
            kept = copy / "tokens" / token.name
            token.write_bytes(kept.read_bytes()) if kept.exists() else token.unlink()
        return
    for file in home.glob("ledger.db*"):
        if file.is_file():
            file.unlink()
    if what == "home":
        shutil.rmtree(home / "tokens", ignore_errors=True)
    for file in copy.iterdir():
        if file.name.startswith("ledger.db") and file.is_file():
            shutil.copy(file, home)
        elif what == "home" and file.is_dir() and file.name == "tokens":
            shutil.copytree(file, home / "tokens")


class Forker:
    """A process that forks one for each start."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.crash.driver", "--serve"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, spec: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(spec) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


def run_case(case: Case, forker: Forker, keys: tuple[str, str], new_ledger: Callable[[Path], str]) -> Result:
    """Start, kill, start again until a start ends by itself; then compare."""
    private_key, public_key = keys
    home = Path(tempfile.mkdtemp(prefix="treasury-crash-"))
    faults = dict(case.faults)
    settings = SandboxSettings(
        partner_id=PARTNER_ID,
        public_key=public_key,
        settle_seconds=case.settle_seconds,
        quote_seconds=case.quote_seconds,
        faults=faults,
    )
    clock = SandboxClock(start=FIRST_TIME if case.fixed_clock else None)
    kills: Counter[str] = Counter()
    try:
        with running_sandbox(settings, clock) as sandbox:
            numbers = _numbers(case, sandbox, private_key, faults)
            ledger_url = new_ledger(home)
            spec: dict[str, Any] = {"home": str(home), "base_url": sandbox.base_url, "ledger_url": ledger_url}
            spec |= {"private_key": private_key, "resend_after": RESEND_AFTER, "in_flight": case.in_flight}
            spec |= {"kinds": case.kinds, "numbers": numbers, "quote_seconds": case.quote_seconds}
            expected = {place: asked for name in case.kinds for place, asked in kind_of(name, numbers).rows.items()}
            cancelled: dict[Place, int] = {}
            starts = _kill_and_restart(case, {**spec, "policy": case.policy}, forker, kills, cancelled)
            faults.clear()
            faults["repeat_acts"] = 1.0
            if case.policy is not None or case.said:
                spec["policy"] = "wide"
            verdict, more = _finish({**spec, "cancelled": sorted(cancelled)}, forker, sandbox, ledger_url, expected)
            log = home / "log.txt"
            text = log.read_text() if log.exists() else ""
            restored = kills.pop("restore", 0)
            books = sandbox.books()["balances"]
            return Result(case, verdict, books, kills, starts + more, text, restored, len(cancelled))
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _numbers(case: Case, sandbox: RunningSandbox, private_key: str, faults: dict[str, float]) -> list[str]:
    """Quotes that another program asked for, before anything goes wrong."""
    if "confirmation" not in case.kinds:
        return []
    kept = dict(faults)
    faults.clear()
    with Client(Account(sandbox.base_url, PARTNER_ID, private_key)) as client:
        numbers = ask_quotes(client)
    faults.update(kept)
    return numbers


def _kill_and_restart(
    case: Case, spec: dict[str, Any], forker: Forker, kills: Counter[str], cancelled: dict[Place, int]
) -> int:
    """`cancelled`: filled with what people were told is cancelled, and after how many starts."""
    starts = 0
    for death in case.deaths:
        _meddle(case, spec, starts, kills, cancelled)
        _let_people_say(case, spec, forker, starts, kills, cancelled)
        armed = {"point": death.point, "hits": death.hits, "kill_after": death.after}
        ended = forker.start({**spec, **armed})
        starts += 1
        if ended["killed"]:
            kills[death.point or "instant"] += 1
        elif ended["code"] not in (DONE, HELD):
            raise AssertionError(_broken(spec, ended))
    _meddle(case, spec, starts, kills, cancelled)
    _let_people_say(case, spec, forker, starts, kills, cancelled)
    return starts


def _let_people_say(
    case: Case, spec: dict[str, Any], forker: Forker, starts: int, kills: Counter[str], cancelled: dict[Place, int]
) -> None:
    """Let people decide what they decide now, each in a process that may be killed."""
    for said in case.said:
        if said.after != starts:
            continue
        death = said.death or Death()
        armed = {"point": death.point, "hits": death.hits, "kill_after": death.after}
        ended = forker.start({**spec, "says": said.act, **armed})
        if ended["killed"]:
            kills[death.point or "instant"] += 1
        elif ended["code"] != DONE:
            raise AssertionError(_broken(spec, ended))
        else:
            cancelled |= dict.fromkeys(confirmed_in(Path(spec["home"])), starts)


def _meddle(case: Case, spec: dict[str, Any], starts: int, kills: Counter[str], cancelled: dict[Place, int]) -> None:
    """Copy the home, or put the copy back, if it is time for that."""
    if case.restore is None or not spec["ledger_url"].startswith("sqlite"):
        return
    if case.restore.restored_after == starts:
        home, copied, what = Path(spec["home"]), case.restore.copied_after, case.restore.what
        _put_back(home, what)
        kills["restore"] += 1
        if cancelled and (home / "copy" / "ledger.db").exists():
            still = still_meant(cancelled, copied, what, home / "copy" / "ledger.db")
            cancelled.clear()
            cancelled |= still
    elif case.restore.copied_after == starts:
        _copy(Path(spec["home"]))


def _finish(
    spec: dict[str, Any], forker: Forker, sandbox: RunningSandbox, ledger_url: str, expected: dict[Any, Any]
) -> tuple[Verdict, int]:
    """Start without killing until nothing is left to do; a conversion may stay unknown for ever."""
    before = None
    for start in range(1, MAX_STARTS):
        customers_pay(sandbox)
        ended = forker.start({**spec, "decide": start > 1})
        if ended["code"] == HELD:  # PostgreSQL notices the dead session a moment later
            time.sleep(0.05)
            continue
        if ended["code"] != DONE:
            raise AssertionError(_broken(spec, ended))
        shown = sandbox.orders()
        sent = [order for order in shown if order["order_type"] != "pay"]
        verdict = judge(ledger_url, sent, expected, [tuple(place) for place in spec["cancelled"]])
        wrong, open_rows = judge_results(spec["kinds"], Path(spec["home"]), shown)
        verdict.faults += wrong
        verdict.waiting += open_rows
        verdict.invoices = len(shown) - len(sent)
        if not verdict.waiting or (verdict.states == before and start > PATIENCE):
            return verdict, start
        before = verdict.states
        time.sleep(RESEND_AFTER * 2)
    return verdict, MAX_STARTS


def _broken(spec: dict[str, Any], ended: dict[str, Any]) -> str:
    log = Path(spec["home"]) / "log.txt"
    return f"a start ended with {ended}: {log.read_text()[-3000:] if log.exists() else ''}"


def problems_of(result: Result, undisturbed: dict[str, Any] | None) -> list[str]:
    """Return what breaks the promise in a case."""
    problems = list(result.verdict.faults)
    states = result.verdict.states
    dark = states.get("unknown", 0)
    # A person is believed once the quote's longest life is over; the campaign does not wait that long for a long one.
    long, kinds = result.case.quote_seconds == LONG, result.case.kinds
    waits = long and ("fiat_payout" in kinds or (result.case.restore is not None and "conversion" in kinds))
    # Another policy ends what waits of a rebalancing: its plan was made under the one before.
    ends = any(said.act.startswith("cancel") or "conversion" in kinds for said in result.case.said)
    ends = ends or (result.case.policy is not None and "conversion" in kinds)
    later = states.get("failed", 0) if "replaced" in kinds else 0
    allowed = {
        "settled",
        "unknown",
        *(("failed",) if later else ()),
        *(("held",) if waits else ()),
        *(("cancelled", "failed") if ends else ()),
    }
    if set(states) - allowed:
        problems.append(f"at the end: {states}")
    if dark and "conversion" not in result.case.kinds and not waits:
        problems.append(f"{dark} rows stay unknown")
    if result.verdict.effects != states.get("settled", 0) + later:
        problems.append(f"{result.verdict.effects} effects for {states}")
    if undisturbed is not None and not dark and result.books != undisturbed:
        problems.append("the books differ from those of an undisturbed run")
    return problems


@dataclass
class Tally:
    """A record of what a campaign came to."""

    kills: Counter[str] = field(default_factory=Counter)
    by_kind: Counter[str] = field(default_factory=Counter)
    cases: int = 0
    starts: int = 0
    effects: int = 0
    invoices: int = 0
    unknown: int = 0
    restores: int = 0
    cancelled: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.kills.total()} kills in {self.cases} cases ({self.starts} starts, {self.seconds:.0f} s): "
            f"{self.effects} payments and {self.invoices} invoices made once each, "
            f"{self.unknown} conversions said to be unknown, {len(self.failures)} broken; "
            f"{self.restores} restores; {self.cancelled} rows cancelled for ever; "
            f"{len(self.kills) - ('instant' in self.kills)} points, "
            f"{self.kills['instant']} instants, by kind {dict(self.by_kind)}"
        )


def run_campaign(
    kills: int,
    new_ledger: Callable[[Path], str],
    *,
    workers: int = 2,
    seeds: Iterator[int] | None = None,
    ledger: str = "sqlite",
    make: Callable[[int], Case] = make_case,
    tell: Callable[[str], None] = lambda _: None,
) -> Tally:
    """Run cases until so many processes were killed."""
    keys = generate_key_pair()
    tally, guard = Tally(), threading.Lock()
    seeds = seeds if seeds is not None else iter(range(10**9))
    undisturbed: dict[str, dict[str, Any]] = {}
    began = time.monotonic()

    def normal(name: str, forker: Forker) -> dict[str, Any]:
        with guard:
            known = undisturbed.get(name)
        if known is None:
            known = run_case(Case(-1, (name,), (), {"repeat_acts": 1.0}), forker, keys, new_ledger).books
            with guard:
                undisturbed[name] = known
        return known

    def work() -> None:
        forker = Forker()
        try:
            while True:
                with guard:
                    seed = next(seeds, None) if tally.kills.total() < kills else None
                if seed is None:
                    return
                case = make(seed)
                try:
                    result = run_case(case, forker, keys, new_ledger)
                    compare = normal(case.kinds[0], forker) if case.fixed_clock else None
                    problems = problems_of(result, compare)
                except AssertionError as error:
                    result, problems = None, [str(error)]
                with guard:
                    again = f"--ledger {ledger} {'--sheets ' * (make is make_sheet_case)}--seed {case.seed}"
                    _add(tally, result, case, problems, again)
                    if problems:
                        tell(tally.failures[-1])
                    elif tally.cases % 100 == 0:
                        tally.seconds = time.monotonic() - began
                        tell(str(tally))
        finally:
            forker.close()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tally.seconds = time.monotonic() - began
    return tally


def _add(tally: Tally, result: Result | None, case: Case, problems: list[str], again: str) -> None:
    tally.cases += 1
    if result is not None:
        tally.kills += result.kills
        tally.starts += result.starts
        tally.restores += result.restores
        tally.cancelled += result.cancelled
        tally.effects += result.verdict.effects
        tally.invoices += result.verdict.invoices
        tally.unknown += result.verdict.states.get("unknown", 0)
        for name in case.kinds:
            tally.by_kind[name] += result.kills.total()
    if problems:
        log = result.log[-2000:] if result is not None else ""
        said = f"again: python -m tests.crash.campaign {again}"
        tally.failures.append(f"seed {case.seed}: {problems}\n  {said}\n  {case}\n{log}")


def sqlite_ledger(home: Path) -> str:
    """The URL of a new ledger."""
    return f"sqlite:///{home / 'ledger.db'}"


def main() -> int:
    """The command."""
    logging.disable(logging.CRITICAL)  # the sandbox complains of clients that die in mid-request
    parser = argparse.ArgumentParser(description="Kill the engine, start it again, compare the books.")
    parser.add_argument("--kills", type=int, default=250)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=None, help="one case")
    parser.add_argument("--sheets", action="store_true", help="withdrawals, codes, invoices, addresses by their sheets")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--ledger", choices=("sqlite", "postgresql"), default="sqlite")
    asked = parser.parse_args()
    seeds = iter(range(asked.first, 10**9)) if asked.seed is None else iter([asked.seed])
    workers = asked.workers if asked.seed is None else 1
    options = {"workers": workers, "seeds": seeds, "ledger": asked.ledger, "tell": lambda line: print(line, flush=True)}
    options["make"] = make_sheet_case if asked.sheets else make_case
    if asked.ledger == "sqlite":
        tally = run_campaign(asked.kills, sqlite_ledger, **options)
    else:
        with postgresql() as new_database:
            tally = run_campaign(asked.kills, lambda _: new_database(empty=True), **options)
    print(tally)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
