"""Random histories of approvals by key: nothing unapproved leaves, and everything that is properly approved does.

Three people with two keys each, a maker whom nobody lists, sheets that change and change back, policies that revoke
keys and move thresholds, tokens that are kept and pasted later for any run, and rows that are written into the ledger's
table of decisions by hand. The oracle (`approved_books.py`) shares no code with the product. `HISTORIES=2000` runs
so many (`make histories`).
"""

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import select

from tests.engine import paying
from tests.listening import Answer, Listening
from tests.machine.approved_books import HOURS, NO_LIMIT, Books, Rules, Signature, labels
from tests.machine.office import open_desk, write_sheet
from tests.proofs import tries
from treasury.approving.tokens import Verb, public_text, read_token, sign
from treasury.clock import Clock
from treasury.errors import ApprovalNeeded, InputError, PolicyChanged, Stopped
from treasury.ledger import schema
from treasury.ledger.approvals import reject_plan, waiting_plan
from treasury.ledger.policies import adopt_policy
from treasury.ledger.proposals import plan_of, plan_subject
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.payments import approving, execution
from treasury.payments.resolving import release_orders
from treasury.policy.model import parse_policy
from treasury.sandbox import generate_key_pair

HISTORIES = tries("HISTORIES", 1, 300)
STEPS = 60
HOUR = 3_600_000
PEOPLE = ("ada", "ben", "cleo")
KEYS = {label: Ed25519PrivateKey.generate() for label in [*labels(PEOPLE), "mallory-1"]}
SHEETS = ("A", "B")
AMOUNTS = ("10", "20", "40")
PAYEES = [f"1234567{number:04d}" for number in range(12)]
THRESHOLDS = ((15, 60), (15, NO_LIMIT), (30, 50), (50, 70), (NO_LIMIT, NO_LIMIT))
ACTS = {"begin": 4, "start": 8, "sign": 24, "paste": 10, "reject": 2, "later": 3, "adopt": 3, "restart": 1}
ACTS |= {"stop": 1, "lift": 3, "forge": 1, "change": 1, "record": 2, "send": 2, "release": 1}


class Hours(Clock):
    """The machine's time, and the hours of a history that passed."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def wall(self) -> float:
        return super().wall() + self._books.now * 3600


class Office:
    """People at one ledger, the service that they pay at, and the tokens that somebody keeps."""

    def __init__(self, folder: Path, key: str, seed: int) -> None:
        self.folder, self.key, self.books = folder, key, Books()
        self.dice = random.Random(seed)
        self.known: dict[str, Any] = {}
        self.listening = Listening(self.reply)
        self.rows: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
        self.shown: dict[str, list[str]] = {}
        self.bag: list[tuple[str, Signature]] = []
        (folder / "home").mkdir()
        self.open()

    def open(self) -> None:
        self.desk = open_desk(self.folder, self.listening.base_url, self.key, 0)
        self.desk.ledger.clock = Hours(self.books)

    def reply(self, path: str, content: bytes) -> Answer:
        """The service pays at once, and shows what it paid."""
        body = json.loads(content)
        reference = str(body.get("request_id"))
        if path.endswith("/payout"):
            run, sheet, row = body["email"].partition("@")[0].split(".")
            self.books.pay(run, sheet, row)
            self.known[reference] = {"order_no": f"N-{reference}", "request_id": reference, "status": 99}
        found = self.known.get(reference)
        answer = {"code": 7000, "message": "ORDER_NOT_EXIST"} if found is None else {"code": 200, "data": found}
        return 200, json.dumps(answer).encode(), {}

    # --- sheets and starts ---

    @property
    def runs(self) -> list[str]:
        return list(dict.fromkeys(run for run, _ in self.rows))

    def a_run(self) -> str:
        return self.dice.choice(self.runs[-3:])

    def new_run(self) -> str:
        """Somebody has a sheet, and another version of it: the second has another first row."""
        run = f"run{len(self.runs)}"
        rows = [
            (f"r{each}", self.dice.choice(AMOUNTS), self.dice.choice(PAYEES)) for each in range(self.dice.randint(1, 3))
        ]
        other = [("r0", str(int(rows[0][1]) + 3), rows[0][2]), *rows[1:]]
        for sheet, content in zip(SHEETS, (rows, other), strict=True):
            self.rows[run, sheet] = content
            self.books.totals[run, sheet] = sum((Decimal(amount) for _, amount, _ in content), Decimal(0))
            written = write_sheet(self.folder, f"{run}.{sheet}", content)
            written.rename(self.folder / f"{run}-{sheet}.csv")
        return run

    def start(self, run: str, sheet: str, key: str | None, *, proposes: bool = True, records: bool = True) -> bool:
        """Somebody starts a run: as the command does, or with tasks of their own; whether it went on to send."""
        file = self.folder / f"{run}-{sheet}.csv"
        try:
            if proposes:
                plan = paying.plan_of(self.desk, file, run)
                token = None if key is None else str(approving.sign_proposal(self.desk, KEYS[key], run, plan.sha256))
                self.books.started(run, sheet, "somebody" if key is None else key.partition("-")[0], key)
                paying.propose(self.desk, plan, proposal=token)
            if records:
                chunks = paying.commit(self.desk, file, run)
                self.books.recorded(run, sheet)
            else:
                chunks = [execution.open_orders(self.desk, run)]
            for ids in chunks:
                execution.send_orders(self.desk, run, ids)
        except (InputError, ApprovalNeeded, PolicyChanged, Stopped):
            return False
        finally:
            self.look()
        return True

    def look(self) -> None:
        """Whoever looks at what waits copies its code: the plans that are shown are those that were proposed."""
        for run in self.runs:
            plan, expected = waiting_plan(self.desk.ledger, run), self.books.newest(run)
            if plan is not None:
                assert expected is not None, run
                assert (plan.number, plan.needed) == (expected.number, expected.needed), (run, plan, expected)
                codes = self.shown.setdefault(run, [])
                if plan.number > len(codes):
                    codes.append(plan.code)
                assert codes[plan.number - 1] == plan.code

    # --- approvals ---

    def sign(self) -> None:
        """A person signs a plan that was shown, mostly the newest; the token is used at once, or kept, or both."""
        run = self.a_run()
        if not (codes := self.shown.get(run)):
            return
        number = len(codes) if self.dice.random() < 0.85 else self.dice.randint(1, len(codes))
        known = [*self.books.rules.keys] if self.dice.random() < 0.8 else [*KEYS]
        label = self.dice.choice(known or [*KEYS])
        hours = self.dice.choice((1, 24, HOURS, 200))
        until = self.desk.ledger.now() + hours * HOUR
        token = str(sign(KEYS[label], Verb.APPROVE, run, codes[number - 1], until))
        signature = Signature(label, run, number, self.books.now + hours, len(self.bag))
        self.bag.append((token, signature))
        if self.dice.random() < 0.8:
            self.paste(run, token, signature)

    def paste(self, run: str, token: str, signature: Signature) -> None:
        """Somebody pastes a token for a run: it is taken exactly when it counts."""
        why, said = self.books.why_not(run, signature), None
        try:
            approving.approve(self.desk, run, token=read_token(token))
        except InputError as error:
            said = str(error)
        assert (why is None) == (said is None), (run, signature, why, said, self.books.newest(run))
        if said is None:
            self.books.approved(run, signature)

    def reject(self, run: str) -> None:
        plan, label = self.books.newest(run), self.dice.choice([*KEYS])
        try:
            reject_plan(self.desk.ledger, run, why="a history", os_user="x", proof=KEYS[label])
        except InputError:
            return
        if label not in self.books.rules.keys:
            self.books.wrong.append(f"{label} rejected {run}, and is not listed")
        assert plan is not None
        plan.is_rejected = True

    def adopt(self, label: str | None, rules: Rules) -> None:
        """Somebody puts another policy in force, with a key: only one that is listed does it."""
        people = {
            person: {
                "keys": [public_text(KEYS[key]) for key, owner in rules.keys.items() if owner == person],
                "may": ["make", "approve", "change_policy"],
            }
            for person in PEOPLE
        }
        table = {"one_approval_above": {"USDT_TRC20": rules.one}, "two_approvals_above": {"USDT_TRC20": rules.two}}
        try:
            policy = parse_policy({"payouts": table, "people": people}, "policy.toml")
            by = "ada" if label is None else label.partition("-")[0]
            key = None if label is None else KEYS[label]
            adopt_policy(self.desk.ledger, policy, "policy.toml", by=by, os_user="x", key=key)
        except InputError:
            return
        if self.books.rules.keys and label not in self.books.rules.keys:
            self.books.wrong.append(f"{label} changed the policy, and is not listed")
        self.books.rules = rules

    def some_rules(self) -> Rules:
        """Each person has a key, or both, or seldom none."""
        keys = {}
        for person in PEOPLE:
            for number in self.dice.choice(((1,), (2,), (1, 2), (1, 2), ())):
                keys[f"{person}-{number}"] = person
        return Rules(keys, *self.dice.choice(THRESHOLDS))

    # --- hands in the ledger ---

    def write(self, statement: str, values: tuple[Any, ...]) -> int:
        """Change the ledger; what the home saw goes, too, for it would end the history with a stop."""
        self.desk.close()
        shutil.rmtree(self.folder / "home" / "seen", ignore_errors=True)
        with closing(sqlite3.connect(self.folder / "home" / "ledger.db")) as ledger, ledger:
            changed = ledger.execute(statement, values).rowcount
        self.open()
        return changed

    def forge(self, run: str) -> None:
        """Somebody with the database adds a yes to the newest plan, with a genuine token or checksum of elsewhere."""
        plan = self.books.newest(run)
        if plan is None or not self.bag:
            return
        token, signature = self.dice.choice(self.bag)
        now = self.desk.ledger.now()
        checksum = (
            "coalesce((SELECT checksum FROM decisions ORDER BY random() LIMIT 1), 'none')"
            if self.dice.random() < 0.5
            else "'none'"
        )
        columns = "verb, why, os_user, is_alone, named, about, name, at, ends_at, token, checksum"
        values = (run, self.about(run), signature.key.partition("-")[0], now, now + HOUR * HOURS, token)
        self.write(
            f"INSERT INTO decisions ({columns}) VALUES ('approve', '', 'x', 0, ?, ?, ?, ?, ?, ?, {checksum})", values
        )
        plan.is_void = True

    def change(self, run: str) -> None:
        """Somebody with the database changes what was decided about the newest plan: a no, a yes, an end, a name."""
        plan = self.books.newest(run)
        how = self.dice.choice(("verb = 'approve'", "ends_at = ends_at + 999999999", "name = 'cleo'", "at = 1"))
        if plan is None:
            return
        kind = self.dice.choice(("approve", "reject"))
        before = self.decided(run)
        self.write(f"UPDATE decisions SET {how} WHERE about = ? AND verb = '{kind}'", (self.about(run),))
        if self.decided(run) != before:
            plan.is_void, plan.is_rejected = True, plan.is_rejected and kind != "reject"

    def decided(self, run: str) -> list[Any]:
        about = self.about(run)
        with closing(sqlite3.connect(self.folder / "home" / "ledger.db")) as ledger:
            return ledger.execute("SELECT * FROM decisions WHERE about = ?", (about,)).fetchall()

    def about(self, run: str) -> str:
        """The newest plan of a run, as decisions are about it."""
        table, ledger = schema.plans, self.desk.ledger
        plans = select(table).where(table.c.run_key == run, table.c.needed > 0).order_by(table.c.id)
        rows = ledger.read(plans)
        return plan_subject(plan_of(ledger, rows[-1])) if rows else "no plan"

    # --- histories ---

    def a_key(self) -> str | None:
        """Whose key a maker signs with: mostly one that is listed, or none."""
        known: list[str | None] = [*self.books.rules.keys]
        return self.dice.choice([None, *known, *known, "mallory-1"])

    def step(self) -> None:
        """One thing that happens."""
        act = self.dice.choices(list(ACTS), list(ACTS.values()))[0]
        if act == "begin" or not self.rows:
            self.start(self.new_run(), "A", self.a_key())
            return
        run = self.a_run()
        sheet = self.dice.choice(("A", "A", "B"))
        does: dict[str, Callable[[], Any]] = {
            "start": lambda: self.start(run, sheet, self.a_key()),
            "record": lambda: self.start(run, sheet, None, proposes=False),
            "send": lambda: self.start(run, sheet, None, proposes=False, records=False),
            "sign": self.sign,
            "paste": lambda: self.paste(run, *self.dice.choice(self.bag)) if self.bag else None,
            "reject": lambda: self.reject(run),
            "later": self.later,
            "adopt": lambda: self.adopt(self.dice.choice([*KEYS]), self.some_rules()),
            "restart": self.restart,
            "stop": lambda: stop_sending(self.desk.ledger, "Ada Example", "a history"),
            "lift": self.lift,
            "forge": lambda: self.forge(run),
            "change": lambda: self.change(run),
            "release": lambda: self.release(run, self.dice.choice([*KEYS])),
        }
        try:
            does[act]()
        except InputError:
            assert act == "release"

    def lift(self) -> None:
        """Somebody stopped whom nobody lists: any listed key lifts it."""
        label = self.dice.choice([*KEYS])
        try:
            count = lift_stop(self.desk.ledger, proof=KEYS[label])
        except InputError:
            return
        if count and label not in self.books.rules.keys:
            self.books.wrong.append(f"{label} lifted a stop, and is not listed")

    def release(self, run: str, label: str) -> None:
        """Whoever signed a plan of the run does not release what is held of it while anybody else is listed."""
        released = release_orders(self.desk, run, None, KEYS[label], why="a history")
        person = self.books.rules.keys.get(label)
        signed = {each.maker for each in self.books.proposed.get(run, ()) if each.is_signed}
        if released and (person is None or (person in signed and self.books.rules.people - signed)):
            self.books.wrong.append(f"{label} released {run}, which {sorted(signed)} made")

    def later(self) -> None:
        self.books.now += self.dice.choice((1, 10, 30, HOURS + 1))

    def restart(self) -> None:
        self.desk.close()
        self.open()

    def finish(self) -> None:
        """Everybody has both keys again, and approves each run that is not paid: then it is."""
        self.adopt(
            next(iter(self.books.rules.keys), None),
            Rules(dict(zip(labels(PEOPLE), ["ada", "ada", "ben", "ben", "cleo", "cleo"], strict=True)), 5, 50),
        )
        self.books.now += HOURS + 1
        lift_stop(self.desk.ledger, proof=KEYS["ada-1"])
        for run in self.runs:
            begun = self.books.begun.get(run)
            for sheet in SHEETS if begun is None else begun[:1]:
                self.pay_in_the_end(run, str(sheet))
                if run in self.books.begun:
                    break
            sheet = self.books.begun[run][0]
            missing = {row for row, *_ in self.rows[run, sheet]} - {row for paid, row in self.books.left if paid == run}
            assert not missing, (run, sheet, missing, self.books.proposed.get(run))

    def pay_in_the_end(self, run: str, sheet: str) -> None:
        for _ in range(2):
            for person in PEOPLE:
                with suppress(InputError):
                    self.release(run, f"{person}-1")
            self.start(run, sheet, None)
            for person in PEOPLE:
                plan = waiting_plan(self.desk.ledger, run)
                expected = self.books.newest(run)
                if expected is None or (plan is None and run not in self.books.begun):
                    continue
                code = self.shown[run][expected.number - 1]
                token = str(sign(KEYS[f"{person}-2"], Verb.APPROVE, run, code, self.desk.ledger.now() + HOUR))
                self.paste(run, token, Signature(f"{person}-2", run, expected.number, self.books.now + 1, -1))
            self.start(run, sheet, None)


@pytest.fixture(scope="module")
def key() -> str:
    return generate_key_pair()[0]


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.costly("a history of some sixty steps")
def test_nothing_unapproved_leaves_and_everything_approved_can(seed: int, tmp_path: Path, key: str) -> None:
    office = Office(tmp_path, key, seed)
    try:
        office.adopt(None, Rules(dict.fromkeys(["ada-1"], "ada") | {"ben-1": "ben", "cleo-1": "cleo"}, 15, 60))
        for number in range(STEPS):
            office.step()
            assert office.books.wrong == [], number
        office.finish()
        assert office.books.wrong == []
    finally:
        office.desk.close()
        office.listening.close()
