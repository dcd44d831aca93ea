"""Cases of the crash campaign: which payments, how each start dies, what is put back, each made from its seed alone."""

import random
from dataclasses import dataclass, field

from tests.crash.payments import KINDS, LATER
from tests.crash.sheets import SHEETS
from treasury.concurrency.crash_points import POINTS

NAMES = (*KINDS, *LATER, "confirmation")
SHOWS_11 = 0.02
"""Seconds for which a confirmed fiat payout still shows 11, as its quote did: shorter than two absences are apart."""
SHORT, LONG = 0.4, 60.0
"""Seconds that a quote lives: a lost confirmation is waited for; a quote that was asked elsewhere has to last."""
QUOTE_POINTS = ("quote.before", "quote.committed", "quote.answered", "quote.recorded", "confirm.before")
IN_DOUBT = ("recover.before", "recover.committed", "resend.decided", "requote.decided", "absence.recorded")
"""Points that are reached only after an earlier death."""
PEOPLE = ("policy.before", "policy.committed", "cancel.before", "cancel.committed")
"""Points of the process in which a person decides."""
EARLY = ("intents.committed", "judged.committed", "send.before", "send.marked", "send.recorded")
"""Points at which most of a run has not left."""
INVOICING = tuple(point for point in POINTS if point.startswith("receipt."))
ADDRESSING = tuple(point for point in POINTS if point.startswith("address."))
PAYING = tuple(
    point
    for point in POINTS
    if point not in (*PEOPLE, *INVOICING, *ADDRESSING) and not point.startswith(("migration.", "backup.", "restore."))
)
"""Points that a payment passes; the others have tests of their own (tests/engine: test_migrations, test_backup)."""


@dataclass(frozen=True)
class Death:
    """How one start is to end: at the n-th passing of a point, or after so many seconds."""

    point: str | None = None
    hits: int = 1
    after: float | None = None


@dataclass(frozen=True)
class Restore:
    """A copy that is made after so many starts, and put back after so many: of the whole home, or the ledger alone."""

    copied_after: int
    restored_after: int
    what: str


@dataclass(frozen=True)
class Said:
    """A record of what a person says after so many starts, and how the process dies in which it is said."""

    after: int
    act: str
    """One of `ACTS`."""
    death: Death | None = None


ACTS = ("cancel row", "cancel run", "low", "wide")
"""Cancel one row that never left, or whole runs; put a policy in force that only some rows fit into, or all."""

RESTORES = ("home", "ledger", "in place")
"""`in place`: ledger and token over the very same files, so that only the service's answers tell."""
TROUBLE = ("drop_before", "drop_after", "error_500_after", "truncated_json", "html", "unlisted_code_after")
"""Faults of requests, two of which strike in some cases."""
DIRECT_KINDS = ("payout", "withdraw", "scan_to_pay", *SHEETS)


@dataclass(frozen=True)
class Case:
    """One case: which payments, how each start dies, and how the service behaves."""

    seed: int
    kinds: tuple[str, ...]
    deaths: tuple[Death, ...]
    faults: dict[str, float] = field(default_factory=dict)
    settle_seconds: float = 0.0
    in_flight: int = 4
    fixed_clock: bool = True
    quote_seconds: float = SHORT
    restore: Restore | None = None
    policy: str | None = None
    """The policy that the first start adopts; None for a rehearsal."""
    said: tuple[Said, ...] = ()


def _reaches(name: str, point: str) -> bool:
    if point in QUOTE_POINTS:
        return name in ("fiat_payout", "conversion")
    if point == "requote.decided":
        return name == "fiat_payout"
    # No absence of a conversion is evidence, and a quoted payout is quoted anew.
    return not (point == "resend.decided" and name in ("conversion", "fiat_payout"))


def _systematic() -> list[tuple[str, str]]:
    """Every point for every kind that reaches it; the first few pass through every point already."""
    rounds = [
        [name for name in (*NAMES[shift % len(NAMES) :], *NAMES[: shift % len(NAMES)]) if _reaches(name, point)]
        for shift, point in enumerate(PAYING)
    ]
    longest = max(len(names) for names in rounds)
    return [
        (names[turn], point)
        for turn in range(longest)
        for point, names in zip(PAYING, rounds, strict=True)
        if turn < len(names)
    ]


def make_case(seed: int) -> Case:
    """The case of a seed."""
    dice = random.Random(seed)
    if seed < len(PEOPLE):
        return _of_people(seed)
    places = _systematic()
    if seed - len(PEOPLE) < len(places):
        name, point = places[seed - len(PEOPLE)]
        faults, first = _before(dice, point)
        more = [Death(point)] * 3 if point == "requote.decided" else []  # its quote has to end first
        deaths = [*first, *more, Death(point, 1), Death(point, dice.randint(1, 3))]
        quote_seconds = LONG if name == "confirmation" else SHORT
        return Case(seed, (name,), tuple(deaths), faults, in_flight=dice.choice((1, 4)), quote_seconds=quote_seconds)
    kinds = tuple(dice.sample(NAMES, dice.choice((1, 1, 2))))
    deaths = []
    for _ in range(dice.randint(2, 6)):
        if dice.random() < 0.5:
            deaths.append(Death(dice.choice(PAYING), dice.randint(1, 6)))
        else:
            deaths.append(Death(after=dice.uniform(0.01, 0.16)))
    faults = {"repeat_acts": 1.0}
    if dice.random() < 0.4:
        faults |= dict.fromkeys(dice.sample(TROUBLE, 2), 0.25)
    settle, in_flight = dice.choice((0.0, SHOWS_11)), dice.choice((1, 4, 8))
    restore = _restore(dice, kinds, len(deaths))
    policy, said = _decided(dice, len(deaths))
    if LATER.keys() & set(kinds):  # to a cancelled run nothing is added, and a cancelled row would be replaced too
        said = ()
    if said:  # while there is something to decide about: the first start dies before every row has left
        in_flight, deaths[0] = 1, Death(dice.choice(EARLY), dice.randint(1, 3))
    return Case(
        seed,
        kinds,
        tuple(deaths),
        faults,
        settle,
        in_flight,
        fixed_clock=False,
        quote_seconds=LONG if "confirmation" in kinds else SHORT,
        restore=restore,
        policy=policy,
        said=said,
    )


def _before(dice: random.Random, point: str) -> tuple[dict[str, float], list[Death]]:
    """Return the faults, and the death before, without which no start passes a point."""
    faults = {"repeat_acts": 1.0}
    faults |= {"send.refused": {"rate_limit_429_bare": 0.6}, "send.lost": {"drop_after": 0.6}}.get(point, {})
    return faults, [Death("send.marked", dice.randint(1, 3))] if point in IN_DOUBT else []


REQUESTS = ("client.before", "client.answered")
"""Points of every request; the first few of a start are those of its plan."""


def points_of_sheet(name: str) -> tuple[str, ...]:
    """Return the points that the sheet of this kind passes."""
    if name in ("invoices", "addresses", "users"):
        return (*REQUESTS, *{"invoices": INVOICING, "addresses": ADDRESSING}.get(name, ()))
    return tuple(point for point in PAYING if _reaches(name, point))


def _places() -> list[tuple[str, str]]:
    """Every point of every sheet, of one after the other, so that a short campaign has some of each."""
    points = {name: random.Random(name).sample(points_of_sheet(name), len(points_of_sheet(name))) for name in SHEETS}
    turns = range(max(map(len, points.values())))
    return [(name, some[turn]) for turn in turns for name, some in points.items() if turn < len(some)]


def make_sheet_case(seed: int) -> Case:
    """The case of a seed, of withdrawals, QR codes, invoices, deposit addresses or card users through their sheets."""
    dice = random.Random(f"sheets {seed}")
    every = _places()
    if seed < len(every):
        name, point = every[seed]
        faults, first = _before(dice, point)
        most = 12 if point in REQUESTS else 3
        deaths = (*first, Death(point, 1), Death(point, dice.randint(1, most)), Death(point, dice.randint(1, most)))
        return Case(seed, (name,), deaths, faults, in_flight=dice.choice((1, 4)))
    kinds = tuple(dice.sample(tuple(SHEETS), dice.choice((1, 2, 2))))
    deaths = tuple(_death(dice, kinds) for _ in range(dice.randint(2, 6)))
    faults = {"repeat_acts": 1.0}
    if dice.random() < 0.4:
        faults |= dict.fromkeys(dice.sample(TROUBLE, 2), 0.25)
    restore = _restore(dice, kinds, len(deaths))
    settle, in_flight = dice.choice((0.0, SHOWS_11)), dice.choice((1, 4, 8))
    policy = dice.choice((None, "fits", "no limits"))
    return Case(seed, kinds, deaths, faults, settle, in_flight, fixed_clock=False, restore=restore, policy=policy)


def _death(dice: random.Random, kinds: tuple[str, ...]) -> Death:
    """Return an end at an instant, or at a point that the sheet of one of these kinds passes."""
    if dice.random() < 0.5:
        return Death(after=dice.uniform(0.01, 0.25))
    return Death(dice.choice(points_of_sheet(dice.choice(kinds))), dice.randint(1, 6))


def _decided(dice: random.Random, starts: int) -> tuple[str | None, tuple[Said, ...]]:
    """In half of the cases a policy is in force; in three of five people decide something between two starts."""
    policy = dice.choice((None, None, "fits", "no limits"))
    if dice.random() < 0.4:
        return policy, ()
    said: list[Said] = []
    for _ in range(dice.randint(1, 2)):
        act = dice.choices(ACTS, [3, 3, 2, 2])[0]
        kind = dice.choice(("no", "no", "point", "instant"))
        place = "cancel" if act.startswith("cancel") else "policy"
        point = f"{place}.{dice.choice(('before', 'committed'))}"
        hits, after = dice.randint(1, 2), dice.uniform(0.005, 0.06)
        death = {"no": None, "point": Death(point, hits if place == "cancel" else 1), "instant": Death(after=after)}
        said.append(Said(dice.randint(1, starts) if said else 1, act, death[kind]))
    return policy, tuple(said)


def _of_people(seed: int) -> Case:
    """Each point of a person's process, between two starts that die before most rows have left."""
    point = PEOPLE[seed]
    act = "low" if point.startswith("policy") else "cancel run"
    deaths = (Death("send.marked"), Death("send.recorded"))
    said = (Said(1, act, Death(point)),)
    # Of withdrawals, which are calls of their own, nothing is recorded yet that a person could cancel.
    kind = "payout" if point.startswith("cancel") else ("payout", "withdraw")[seed % 2]
    faults = {"repeat_acts": 1.0}
    return Case(seed, (kind,), deaths, faults, in_flight=1, fixed_clock=False, policy="fits", said=said)


def _restore(dice: random.Random, kinds: tuple[str, ...], starts: int) -> Restore | None:
    """One of three cases puts an older copy back between two starts."""
    if dice.random() > 0.34:
        return None
    copied = dice.randint(0, starts - 1)
    what = dice.choice(RESTORES if set(kinds) <= set(DIRECT_KINDS) else RESTORES[:2])
    return Restore(copied, dice.randint(copied + 1, starts), what)
