"""Random histories of keyed decisions: each acts exactly when the right key says it about the thing as it stands.

Three people with two keys each and a stranger try every verb with every key, by typed names, with signatures of
another verb, and with tokens that are kept and pasted later, while rows are held again, stops come and go, keys are
revoked, the policy is recovered, the ledger begins another epoch, and hours pass. The oracle shares no code with the
product. `HISTORIES=2000` runs so many (`make histories`).
"""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.engine import paying
from tests.machine.office import open_desk, write_sheet
from tests.moved_clock import MovedClock
from tests.proofs import tries
from treasury.approving.tokens import Token, Verb, public_text, sign
from treasury.errors import InputError, RecoveryRuns
from treasury.ledger import closing
from treasury.ledger.decisions import PURPOSES, Proof, Word, matter_of, order_subject
from treasury.ledger.kept_breaks import accept_break, matter_of_break, record_breaks, withdraw_acceptances
from treasury.ledger.policies import adopt_policy, recover_policy
from treasury.ledger.stops import lift_stop, stop_sending, stops_to_lift
from treasury.ledger.sweeps import record_sweep
from treasury.orders.records import Order
from treasury.orders.states import Event, State
from treasury.payments import approving
from treasury.policy.model import parse_policy
from treasury.provider.service_rules import ServiceRules
from treasury.reconciliation.breaks import Break, Finding
from treasury.reconciliation.scope import Scope
from treasury.sandbox import generate_key_pair

HISTORIES = tries("HISTORIES", 2, 300)
STEPS = 80
HOUR = 3_600_000
PEOPLE = ("ada", "ben", "cleo")
LABELS = [f"{person}-{number}" for person in PEOPLE for number in (1, 2)]
KEYS = {label: Ed25519PrivateKey.generate() for label in [*LABELS, "mallory-1"]}
BREAK = "statement 0001"
ANOTHERS = ("release", "resolve as not sent", "resolve as failed", "accept", "lift a stop")
FREE = ("cancel", "reject")
"""Verbs that count while a recovery runs."""
STEP_OF = {purpose.value: event for event, purpose in PURPOSES.items() if event is not Event.RESOLVE_REJECTED}
ACTS = {
    "begin": 4,
    "decide": 30,
    "paste": 20,
    "hold": 6,
    "stop": 3,
    "rotate": 2,
    "recover": 1,
    "epoch": 1,
    "later": 4,
    "break": 2,
}


@dataclass(frozen=True)
class Signed:
    """A signature, as the oracle knows it."""

    label: str
    verb: str
    about: tuple[str, ...]
    """Each thing, and the state of it that was looked at."""
    epoch: int
    until: float


@dataclass
class World:
    """The oracle: who is listed, who made what, what stands there."""

    hours: float = 0
    epoch: int = 0
    keys: dict[str, str] = field(default_factory=dict)
    coming: tuple[float, dict[str, str]] | None = None
    """When a recovery takes effect, and whom it lists."""
    makers: dict[str, str | None] = field(default_factory=dict)
    """Run -> who signed its plan."""
    stands: dict[str, int] = field(default_factory=dict)
    """Thing -> how often it was moved."""
    stops: dict[str, str] = field(default_factory=dict)
    """Stop -> who made it."""

    def pass_hours(self, hours: float) -> None:
        self.hours += hours
        if self.coming is not None and self.hours >= self.coming[0]:
            self.keys, self.coming = self.coming[1], None

    def about(self, verb: str, thing: str) -> str:
        """A thing as it stands; a cancellation is about it for ever."""
        return thing if verb == "cancel" else f"{thing} at {self.stands.get(thing, 0)}"

    def may(self, label: str, verb: str, maker: str | None) -> bool:
        """Tell whether this key counts for this verb about something of this maker."""
        person = self.keys.get(label)
        if person is None or (self.coming is not None and verb not in FREE):
            return False
        others = set(self.keys.values()) - {maker}
        return verb not in ANOTHERS or person != maker or not others

    def counts(self, signed: Signed, verb: str, about: tuple[str, ...]) -> bool:
        """Tell whether a token is about exactly this, now."""
        meant = (signed.verb, sorted(signed.about), signed.epoch) == (verb, sorted(about), self.epoch)
        return meant and self.hours < signed.until


class Office:
    """People at one ledger, and the tokens that somebody keeps."""

    def __init__(self, folder: Path, key: str, seed: int) -> None:
        self.folder, self.dice, self.world = folder, random.Random(seed), World()
        (folder / "home").mkdir()
        nobody = f"http://127.0.0.1:{10_000 + os.getpid() % 50_000}"  # an account of this process alone
        self.desk = open_desk(folder, nobody, key, 0)
        self.desk.ledger.clock = self.clock = MovedClock()
        self.bag: list[tuple[Token, Signed]] = []
        self.heard: set[tuple[str, tuple[str, ...]]] = set()
        """Tokens that decided, and what about: each does once."""
        self.tried = self.done = 0
        self.runs = 0
        self.desk.check_standing()
        self.rotate(dict(zip(LABELS, ("ada", "ada", "ben", "ben", "cleo", "cleo"), strict=True)), None)
        self.find_break()
        self.new_run()  # the row that the others look like

    # --- what happens ---

    def policy(self, keys: dict[str, str]) -> dict[str, object]:
        people = {
            person: {
                "keys": [public_text(KEYS[label]) for label, owner in keys.items() if owner == person],
                "may": ["make", "approve", "change_policy"],
            }
            for person in PEOPLE
        }
        return {"payouts": {}, "people": people}

    def some_keys(self) -> dict[str, str]:
        found = {label: label.partition("-")[0] for label in LABELS if self.dice.random() < 0.6}
        return found or {"ada-1": "ada"}

    def rotate(self, keys: dict[str, str], label: str | None) -> None:
        """Another policy is adopted; a regular one also while a recovery runs."""
        self.clock.move(1)
        wanted = parse_policy(self.policy(keys), "policy.toml")
        by = "ada" if label is None else label.partition("-")[0]
        key = None if label is None else KEYS[label]
        adopt_policy(self.desk.ledger, wanted, "policy.toml", by=by, os_user="x", key=key)
        self.world.keys = keys

    def recover(self) -> None:
        if self.world.coming is None:
            keys = self.some_keys()
            wanted = parse_policy(self.policy(keys), "new.toml")
            recover_policy(self.desk.ledger, wanted, "new.toml", by="Ada", os_user="x", now=self.desk.ledger.now())
            self.world.coming = (self.world.hours + 72, keys)

    def new_run(self) -> None:
        """Somebody has a sheet, and signs it or not; the row is held, for it looks like the first one."""
        if self.world.coming is not None:
            return
        run = f"run{self.runs}"
        file = write_sheet(self.folder, run, [("r0", "20", "12345670001")])
        label = self.dice.choice([None, *self.world.keys])
        plan = paying.plan_of(self.desk, file, run)
        token = None if label is None else str(approving.sign_proposal(self.desk, KEYS[label], run, plan.sha256))
        paying.propose(self.desk, plan, proposal=token)
        paying.commit(self.desk, file, run)
        self.world.makers[run] = None if label is None else self.world.keys[label]
        self.runs += 1

    def find_break(self) -> None:
        found = Finding(BREAK, "not_ours", None, "USDT_TRC20", None, Decimal(self.dice.randint(1, 9)), "")
        self.break_id = found.id
        ledger, whole = self.desk.ledger, Scope()
        sweep = record_sweep(ledger, whole, (), since=0)
        closing.close_sweep(ledger, sweep, whole, ServiceRules())
        record_breaks(ledger, sweep, [Break(found, 0, 0, "new", "low")])
        self.difference = found.difference

    def order(self) -> Order | None:
        held = self.desk.ledger.orders(states=(State.HELD,))
        return self.dice.choice(held) if held else None

    def hold(self) -> None:
        """Hold again what was released."""
        for order in self.desk.ledger.orders(states=(State.PREPARED,))[1:]:
            self.desk.ledger.step(order, Event.HOLD, cause="again", reason="again", hold_kind="duplicate")
            self.world.stands[order.run_key] = self.world.stands.get(order.run_key, 0) + 1

    def stop(self) -> None:
        label = self.dice.choice([*KEYS])
        stop_sending(self.desk.ledger, "Somebody", "a history", os_user="x", key=KEYS[label])
        self.world.stops[f"stop {len(self.world.stops)}-{self.tried}"] = self.world.keys.get(label, "Somebody")

    def epoch(self) -> None:
        """The ledger is found to be older: what waits of it is held."""
        began = self.desk.ledger.orders(states=(State.PREPARED,))
        self.clock.move(36 * 24 * 3600)  # the epoch before is over
        self.world.pass_hours(36 * 24)
        self.desk.begin_epoch("a history")
        self.world.epoch += 1
        for order in began:
            self.world.stands[order.run_key] = self.world.stands.get(order.run_key, 0) + 1

    # --- who decides ---

    def paste(self) -> None:
        """Somebody tries a kept token again, for the very verb and thing that it was signed about."""
        kept = [(token, signed) for token, signed in self.bag if signed.verb != "none"]
        if not kept:
            return
        token, signed = self.dice.choice(kept)
        run = signed.about[0].partition(" ")[0]
        held = {each.run_key: each for each in self.desk.ledger.orders(states=(State.HELD,))}
        if signed.verb not in STEP_OF or run in held:
            self.decide(signed.verb, held.get(run), token, signed)

    def decide(
        self, verb: str | None = None, order: Order | None = None, kept: Token | None = None, by: Signed | None = None
    ) -> None:
        """Somebody tries a verb: with a key, by a name alone, or with a token; it acts exactly when it counts."""
        if verb is None:
            verb = self.dice.choice([*STEP_OF, "lift a stop", "accept", "withdraw an acceptance"])
            order = self.order() if verb in STEP_OF else None
        if verb in STEP_OF and order is None:
            return
        things = self.things(verb, order)
        if not things:
            return
        about = tuple(self.world.about(verb, thing) for thing in things)
        label = self.dice.choice([*KEYS])
        proof: Proof | None = kept
        expected = by.label if by is not None and self.world.counts(by, verb, about) else None
        if kept is None:
            proof, expected = self.proof(verb, order, about, label)
        if (str(proof), about) in self.heard:
            expected = None
        makers = self.makers(verb, order, things)
        allowed = [expected is not None and self.world.may(expected, verb, maker) for maker in makers]
        acted = self.act(verb, order, proof)
        self.tried += 1
        assert acted == any(allowed), (verb, expected, things, makers, self.world, acted)
        if acted:
            self.done += 1
            self.heard |= {(str(proof), about)} if isinstance(proof, Token) else set()
            self.moved(verb, order, things, allowed)

    def things(self, verb: str, order: Order | None) -> list[str]:
        if order is not None:
            return [order.run_key]
        if verb == "lift a stop":
            return [*self.world.stops]
        if verb == "accept":
            return [f"{BREAK} of {self.difference}"]
        return [f"acceptance {each}" for each in range(self.world.stands.get("accepted", 0))]

    def makers(self, verb: str, order: Order | None, things: list[str]) -> list[str | None]:
        if order is not None:
            return [self.world.makers[order.run_key]]
        return [self.world.stops[thing] for thing in things] if verb == "lift a stop" else [None]

    def proof(
        self, verb: str, order: Order | None, about: tuple[str, ...], label: str
    ) -> tuple[Proof | None, str | None]:
        """Return what is shown, and whose key it is if it is about this."""
        how = self.dice.random()
        if how < 0.1:
            return None, None
        if how < 0.5:
            return KEYS[label], label
        if how < 0.7 and self.bag:
            token, signed = self.dice.choice(self.bag)
            return token, signed.label if self.world.counts(signed, verb, about) else None
        hours = self.dice.choice((1, 24, 2000))  # longer than an epoch
        other = verb if self.dice.random() < 0.8 else self.dice.choice([each.value for each in Verb])
        until = self.desk.ledger.now() + hours * HOUR
        token = sign(KEYS[label], Verb(other), "x", self.code(verb, order), until)
        signed = Signed(label, other if other == verb else "none", about, self.world.epoch, self.world.hours + hours)
        self.bag.append((token, signed))
        return token, label if other == verb else None

    def code(self, verb: str, order: Order | None) -> str:
        ledger, purpose = self.desk.ledger, Verb(verb)
        if order is not None:
            return ledger.look(
                lambda look: matter_of(look, ledger, purpose, [order_subject(look, purpose, order)], "")
            ).code
        if verb == "lift a stop":
            return stops_to_lift(ledger).code
        return matter_of_break(ledger, self.break_id, ends_at=None, withdraw=verb != "accept").code

    def act(self, verb: str, order: Order | None, proof: Proof | None) -> bool:
        said = {"by": "" if proof is not None else "ada", "why": "a history", "os_user": "x"}
        ledger = self.desk.ledger
        try:
            if order is not None:
                word = Word(Verb(verb), said["by"], said["why"], "x", proof)
                ledger.step(order, STEP_OF[verb], cause="a history", word=word, hold_kind=None)
            elif verb == "lift a stop":
                return lift_stop(ledger, said["by"], os_user="x", proof=proof) > 0
            elif verb == "accept":
                accept_break(ledger, self.break_id, by=said["by"], why=said["why"], os_user="x", proof=proof)
            else:
                withdraw_acceptances(ledger, self.break_id, **said, proof=proof)
        except (InputError, RecoveryRuns):
            return False
        return True

    def moved(self, verb: str, order: Order | None, things: list[str], allowed: list[bool]) -> None:
        stands = self.world.stands
        if order is not None:
            stands[order.run_key] = stands.get(order.run_key, 0) + 1
        elif verb == "lift a stop":
            for thing, was in zip(things, allowed, strict=True):
                if was:
                    del self.world.stops[thing]
        elif verb == "accept":
            stands["accepted"] = stands.get("accepted", 0) + 1
        else:
            for thing in things:
                stands[thing] = stands.get(thing, 0) + 1
            stands["accepted"] = 0

    def step(self) -> None:
        act = self.dice.choices(list(ACTS), list(ACTS.values()))[0]
        does: dict[str, Callable[[], object]] = {
            "begin": self.new_run,
            "decide": self.decide,
            "paste": self.paste,
            "hold": self.hold,
            "stop": self.stop,
            "rotate": lambda: self.rotate(self.some_keys(), self.dice.choice([*self.world.keys])),
            "recover": self.recover,
            "epoch": self.epoch,
            "later": self.later,
            "break": self.find_break,
        }
        does[act]()

    def later(self) -> None:
        hours = self.dice.choice((1, 10, 30, 73))
        self.clock.move(hours * 3600)
        self.world.pass_hours(hours)


@pytest.fixture(scope="module")
def key() -> str:
    return generate_key_pair()[0]


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.costly("a history of some eighty steps")
def test_a_decision_acts_exactly_when_the_right_key_says_it_about_what_stands_there(
    seed: int, tmp_path: Path, key: str
) -> None:
    office = Office(tmp_path, key, seed)
    try:
        for _ in range(STEPS):
            office.step()
    finally:
        office.desk.close()


def test_every_wrong_key_with_every_verb_acts_on_nothing(tmp_path: Path, key: str) -> None:
    """A row that ada made: a stranger, a typed name, and ada herself where it takes somebody else."""
    office = Office(tmp_path, key, 0)
    try:
        while office.world.makers.get(f"run{office.runs - 1}") != "ada" or office.runs < 2:
            office.new_run()
        [order] = office.desk.ledger.orders(run_key=f"run{office.runs - 1}")
        for verb in STEP_OF:
            wrong: list[Proof | None] = [None, KEYS["mallory-1"]]
            wrong += [KEYS["ada-1"], KEYS["ada-2"]] if verb in ANOTHERS else []
            for other in Verb:
                if other.value != verb:
                    until = office.desk.ledger.now() + HOUR
                    wrong.append(sign(KEYS["ben-1"], other, "x", office.code(verb, order), until))
            assert not any(office.act(verb, order, proof) for proof in wrong), verb
        assert office.desk.ledger.orders(ids=[order.id]) == [order]
        assert office.act("release", order, KEYS["ben-1"])
    finally:
        office.desk.close()
