"""Pure: turns findings into breaks with a life cycle (new, persisting, resolved), age, severity and acceptance."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from treasury.money import of_asset
from treasury.policy.model import Policy
from treasury.reconciliation.classes import BY_NAME, PRIORITY, Verdict

DAY_MS = 24 * 3_600_000

NEW, PERSISTING, RESOLVED = "new", "persisting", "resolved"

OLD_DAYS = 7
"""A break that is older is of high severity whatever its amount."""


@dataclass(frozen=True)
class Acceptance:
    """A person's acceptance of a break as it was at that time."""

    break_id: str
    name: str
    """The class it had."""
    difference: Decimal
    accepted_by: str
    why: str
    accepted_at: int
    ends_at: int | None = None
    """When it counts no more, Unix ms."""
    others: tuple["Acceptance", ...] = ()
    """Earlier ones of the same break: a second one adds, it overwrites nothing."""


def id_of_subject(subject: str) -> str:
    """The id of the break about this subject; of an order that is its request id."""
    return "B-" + hashlib.sha256(subject.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Finding:
    """Something remarkable, before its life cycle is known. Amounts in `currency`."""

    subject: str
    """Its subject: a request id, `balance USDT`, `statement 0123`, `card user u-1`."""
    name: str
    """Its class."""
    request_id: str | None
    currency: str | None
    amount: Decimal | None
    difference: Decimal
    evidence: str
    run_key: str | None = None
    row_ref: str | None = None
    operation: str | None = None
    order_no: str | None = None

    @property
    def id(self) -> str:
        """The stable id of the break: what it is about, not its class, which may change from night to night."""
        return id_of_subject(self.subject)


@dataclass(frozen=True)
class Break:
    """A finding with its life cycle."""

    found: Finding
    first_seen: int
    age_days: int
    lifecycle: str
    severity: str
    accepted: Acceptance | None = None

    @property
    def counts(self) -> bool:
        """Tell whether the break counts towards the verdict."""
        return self.lifecycle != RESOLVED and self.accepted is None

    @property
    def age_bucket(self) -> str:
        """`0-1`, `2-7`, `8-30` or `over 30` days."""
        return next((name for most, name in AGE_BUCKETS if self.age_days <= most), "over 30")


GRAVE = ("other_record",)
"""Classes that are of high severity whatever the amount: nothing is known of the order."""

KEPT = ("orphan_success", "reversed_after_final", "opening")
"""Classes that the ledger's own correction makes invisible the next night: they end only by a person's acceptance."""

AGE_BUCKETS = ((1, "0-1"), (7, "2-7"), (30, "8-30"))


@dataclass(frozen=True)
class KnownBreak:
    """A break as the last report had it, and when it was first seen.

    `kept`: as the last report had it that showed it in a class of `KEPT`. `is_told`: a report that was written had it.
    """

    found: Finding
    first_seen: int
    kept: Finding | None = None
    is_told: bool = True


def assign_lifecycle(
    findings: Sequence[Finding],
    known: Mapping[str, KnownBreak],
    covered: frozenset[str],
    acceptances: Mapping[str, Acceptance],
    policy: Policy,
    as_of: int,
    *,
    is_whole: bool = True,
    asked: Collection[str] = (),
) -> list[Break]:
    """The breaks of a report, by priority of class, then amount, then id.

    `known`: id -> the break as the last whole report had it, unless it was resolved there. `covered`: ids about which
    this report can say that the service corrected it, or that an entry explains it. `acceptances`: id -> the latest.
    A break that is not found any more and was neither corrected nor accepted stays, in every report that `is_whole`;
    one that only a person ends stays in every other one that `asked` about it (its id), too.
    """
    now = {finding.id: finding for finding in findings}
    breaks = []
    for key, finding in now.items():
        kept = _kept(known.get(key), acceptances.get(key))
        first = min((finding, kept or finding), key=lambda each: PRIORITY[each.name])
        breaks.append(_living(first, known.get(key), acceptances.get(key), policy, as_of))
    for key, old in known.items():
        kept = _kept(old, acceptances.get(key))
        if key not in now and (is_whole or (kept is not None and key in asked)):
            found = kept or old.found
            last = _living(found, old, acceptances.get(key), policy, as_of)
            accepted = last.accepted is not None and last.accepted.ends_at is None  # else it counts again one day
            ended = accepted or (key in covered and found.name not in KEPT)
            breaks.append(replace(last, lifecycle=RESOLVED, severity="low") if ended else last)
    return sorted(breaks, key=_place)


def _kept(known: KnownBreak | None, acceptance: Acceptance | None) -> Finding | None:
    """Return what only a person ends of a break, and nobody accepted: whatever else is found about its order since."""
    if known is None:
        return None
    kept = known.found if known.found.name in KEPT else known.kept
    return None if kept is None or _accepted_as(kept, acceptance) is not None else kept


def standing_breaks(
    known: Mapping[str, KnownBreak], acceptances: Mapping[str, Acceptance], policy: Policy, as_of: int
) -> list[Break]:
    """Return the breaks of the last report that count now, those to begin with first."""
    found = (_living(each.found, each, acceptances.get(key), policy, as_of) for key, each in known.items())
    return sorted((each for each in found if each.counts), key=_place)


def _living(
    finding: Finding, known: KnownBreak | None, acceptance: Acceptance | None, policy: Policy, as_of: int
) -> Break:
    lifecycle = PERSISTING if known is not None and known.is_told else NEW
    first_seen = as_of if known is None else known.first_seen
    age_days = max(0, as_of - first_seen) // DAY_MS
    severity = _severity(finding, age_days, policy)
    return Break(finding, first_seen, age_days, lifecycle, severity, _accepted_as(finding, acceptance))


def _accepted_as(finding: Finding, newest: Acceptance | None) -> Acceptance | None:
    """Return the acceptances of a finding as it is, all people in one; None where there is none."""
    said = () if newest is None else (*newest.others, newest)
    hold = [each for each in said if _still_accepted(finding, each)]
    if not hold:
        return None
    lasting = [each for each in hold if each.ends_at is None]
    by, why = (dict.fromkeys(texts) for texts in zip(*((each.accepted_by, each.why) for each in hold), strict=True))
    return replace((lasting or hold)[-1], accepted_by=", ".join(by), why="; ".join(why), others=())


def _still_accepted(finding: Finding, acceptance: Acceptance) -> bool:
    """An acceptance holds for the same class and difference; that something could not be read is never accepted."""
    same = (acceptance.name, acceptance.difference) == (finding.name, finding.difference)
    return same and BY_NAME[finding.name].verdict is not Verdict.INCOMPLETE


def _severity(found: Finding, age_days: int, policy: Policy) -> str:
    """`high`: over the policy's amount, or old; `medium`: any other break; `low`: a warning."""
    if BY_NAME[found.name].verdict not in (Verdict.BREAKS, Verdict.INCOMPLETE):
        return "low"
    high = of_asset(policy.reconciliation.high_amounts, found.currency or "")
    large = high is not None and max(abs(found.amount or Decimal(0)), abs(found.difference)) >= high
    return "high" if large or found.name in GRAVE or age_days > OLD_DAYS else "medium"


def _place(made: Break) -> tuple[bool, int, Decimal, str]:
    """Resolved ones last; by priority of class, then the greatest amount, then id."""
    return (made.lifecycle == RESOLVED, PRIORITY[made.found.name], -abs(made.found.amount or Decimal(0)), made.found.id)
