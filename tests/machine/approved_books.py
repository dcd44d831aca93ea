"""The oracle of approvals: who proposed and signed what, which rules are in force, what left. It shares no code.

Keys are known by labels, time by hours. A payment tells its run, sheet and row in its e-mail address.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

HOURS = 72
"""How long an approval counts at most."""

NO_LIMIT = 1_000_000


@dataclass(frozen=True)
class Rules:
    """A record of what the policy in force says."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """Label of a key -> the person who is listed with it."""
    one: int = NO_LIMIT
    two: int = NO_LIMIT

    def needed(self, total: Decimal, *, is_listed: bool) -> int:
        """How many people besides the maker a total needs: one more for a maker whom nobody lists, where there are."""
        asked = 2 if total > self.two else 1 if total > self.one else 0
        return max(asked, min(asked + 1, len(self.people))) if asked and not is_listed else asked

    @property
    def people(self) -> set[str]:
        """Who has a key that counts."""
        return set(self.keys.values())


@dataclass(frozen=True)
class Signature:
    """A record of what a person said yes to with a key: one proposal."""

    key: str
    run: str
    number: int
    expires: int
    serial: int
    """Tells two signatures of one hour apart: each is a text of its own."""


@dataclass
class Proposed:
    """A plan that somebody made, and who said yes to it."""

    number: int
    sheet: str
    rules: Rules
    maker: str
    is_signed: bool
    needed: int
    yes: list[Signature] = field(default_factory=list)
    pasted: list[Signature] = field(default_factory=list)
    is_rejected: bool = False
    is_void: bool = False
    """Somebody wrote into what was decided about it."""
    is_recorded: bool = False
    """Its payments were recorded under it."""

    def is_replaced(self, *, is_signed: bool) -> bool:
        """Tell whether another one takes its place when its sheet is started again, and perhaps signed."""
        return self.is_void or (is_signed and not self.is_signed)


@dataclass
class Books:
    """A record of what people did, and what left."""

    now: int = 0
    rules: Rules = Rules()
    totals: dict[tuple[str, str], Decimal] = field(default_factory=dict)
    """Run and sheet -> what it pays."""
    proposed: dict[str, list[Proposed]] = field(default_factory=dict)
    begun: dict[str, tuple[str, Rules]] = field(default_factory=dict)
    """Run -> the sheet that it was recorded with, and the rules that it was last recorded under."""
    left: list[tuple[str, str]] = field(default_factory=list)
    """Run and row of what left, in order."""
    left_under: dict[str, Rules] = field(default_factory=dict)
    """Run -> the rules under which something of it left, properly approved."""
    wrong: list[str] = field(default_factory=list)

    # --- proposals ---

    def newest(self, run: str) -> Proposed | None:
        """The newest plan of a run, whatever became of it."""
        return self.proposed[run][-1] if self.proposed.get(run) else None

    def started(self, run: str, sheet: str, maker: str, key: str | None) -> None:
        """Somebody starts a run with a sheet, and perhaps signs it: is another plan proposed by it?"""
        before = self.newest(run)
        if run in self.begun and self.begun[run][0] != sheet:
            return  # its rows are bound
        if run in self.begun and self.begun[run][1] == self.rules and (before is None or before.rules == self.rules):
            if before is not None and before.sheet == sheet and self.has_lapsed(run, before):
                again = Proposed(before.number + 1, sheet, self.rules, before.maker, before.is_signed, before.needed)
                self.proposed[run].append(again)
            return
        if key is not None and self.rules.keys.get(key) != maker:
            return  # refused
        is_signed = key is not None
        same = before is not None and (before.sheet, before.rules) == (sheet, self.rules)
        if before is not None and same and (before.is_rejected or not before.is_replaced(is_signed=is_signed)):
            return
        needed = self.rules.needed(self.totals[run, sheet], is_listed=is_signed)
        if not needed or len(self.rules.people - {maker}) < needed:
            return
        number = len(self.proposed.setdefault(run, [])) + 1
        self.proposed[run].append(Proposed(number, sheet, self.rules, maker, is_signed, needed))

    def recorded(self, run: str, sheet: str) -> None:
        """The payments of a sheet were recorded, or had been."""
        plan = self.newest(run)
        if plan is not None and run not in self.begun:
            plan.is_recorded = True
        self.begun[run] = (sheet, self.rules)

    def has_lapsed(self, run: str, plan: Proposed) -> bool:
        """Tell whether the approvals ended by which payments were recorded, before anything of them left."""
        left = any(paid == run for paid, _ in self.left)
        return plan.is_recorded and not left and len(self.counted(plan)) < plan.needed

    # --- approvals ---

    def why_not(self, run: str, signature: Signature) -> str | None:
        """Why a signature that is pasted for a run does not count; None when it does."""
        plan, person = self.newest(run), self.rules.keys.get(signature.key)
        reasons = {
            "no plan": plan is None,
            "rejected": plan is not None and plan.is_rejected,
            "void": plan is not None and plan.is_void,
            "another policy": plan is not None and plan.rules != self.rules,
            "another plan": plan is None or (signature.run, signature.number) != (run, plan.number),
            "revoked": person is None,
            "its maker": plan is not None and person == plan.maker,
            "expired": signature.expires <= self.now,
            "pasted before": plan is not None and signature in plan.pasted,
            "counted": person is not None and person in self.counted(plan),
        }
        return next((why for why, holds in reasons.items() if holds), None)

    def approved(self, run: str, signature: Signature) -> None:
        """A signature was taken: from now on it counts, for so long at most."""
        plan = self.newest(run)
        assert plan is not None
        plan.pasted.append(signature)
        plan.yes.append(replace(signature, expires=min(signature.expires, self.now + HOURS)))

    def counted(self, plan: Proposed | None) -> set[str]:
        """The people whose yes to a plan counts now."""
        if plan is None or plan.is_rejected or plan.is_void:
            return set()
        said = {self.rules.keys.get(each.key) for each in plan.yes if each.expires > self.now}
        return {person for person in said if person is not None and person != plan.maker}

    # --- what leaves ---

    def pay(self, run: str, sheet: str, row: str) -> None:
        """A payment leaves: is it one that people approved?"""
        total, plan = self.totals[run, sheet], self.newest(run)
        asked = self.rules.needed(total, is_listed=True)
        if asked and self.left_under.get(run) != self.rules:
            if plan is None or (plan.sheet, plan.rules) != (sheet, self.rules):
                self.wrong.append(f"{run} {row}: left, and the newest plan of it is another one")
            elif len(self.counted(plan)) < plan.needed:
                self.wrong.append(f"{run} {row}: left with {sorted(self.counted(plan))} of {plan.needed}")
        if (run, row) in self.left:
            self.wrong.append(f"{run} {row}: left twice")
        self.left.append((run, row))
        self.left_under[run] = self.rules


def labels(people: Iterable[str]) -> list[str]:
    """The keys of these people, two each."""
    return [f"{person}-{number}" for person in people for number in (1, 2)]
