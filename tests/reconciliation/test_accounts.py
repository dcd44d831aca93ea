"""Balance accounts roll forward: what nobody explained stays, to the digit, over any number of nights."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from treasury.reconciliation.balances import BalanceAccount, BalanceJudgement, Flows, Lot, Night, judge_account, pooled
from treasury.reconciliation.rolling import roll_forward as roll

D = Decimal


def night(at: int, balance: str | None, moved: str = "0", **flows: str) -> Night:
    said: dict[str, Any] = {name: D(amount) for name, amount in flows.items()}
    return Night(at, None if balance is None else D(balance), D(moved), Flows(**said))


def lots(*nights: Night) -> list[tuple[int, str]]:
    return [(lot.at, str(lot.amount)) for lot in roll("USDT", nights).lots]


OPENED = night(1, "1000")


@pytest.mark.parametrize(
    ("later", "found"),
    [
        ([night(2, "1000")], []),
        ([night(2, "900", arrived="100")], []),
        ([night(2, "899.99", arrived="100")], [(2, "-0.01")]),
        ([night(2, "899.99", arrived="100", fees="0.01")], []),
        ([night(2, "899.99", arrived="100", fees_beside="0.01")], [(2, "-0.01")]),
        ([night(2, "900.01", arrived="100")], [(2, "0.01")]),
        ([night(2, "1050", received="50")], []),
        ([night(2, "970", in_flight="30")], []),
        ([night(2, "1000", in_flight="30")], []),
        ([night(2, "969", in_flight="30")], [(2, "-1")]),
        ([night(2, "1007", receiving="7")], []),
        ([night(2, "993", unpriced="7")], []),
        # What was open stays in the interval once: it is not added up over nights.
        ([night(2, "970", in_flight="30"), night(3, "940", in_flight="30")], [(3, "-30")]),
        # The worked example of the rules.
        (
            [night(2, "850", arrived="100", in_flight="2000"), night(3, "850"), night(4, "900")],
            [(3, "-50"), (4, "50")],
        ),
        # Gone is gone, and a deposit does not pay it back.
        ([night(2, "995"), night(3, "995"), night(4, "995")], [(2, "-5")]),
        ([night(2, "995"), night(3, "1000")], [(2, "-5"), (3, "5")]),
        # What became known late ends a lot of its sign, and is not taken for one when it moves the balance itself.
        ([night(2, "995"), night(3, "995", arrived="5", found="5")], []),
        ([night(2, "995"), night(3, "990", arrived="5", found="5")], [(2, "-5")]),
        ([night(2, "990"), night(3, "990", arrived="4", found="4")], [(2, "-6")]),
        ([night(2, "900", arrived="100"), night(3, "1000"), night(4, "1000", arrived="-100", returned="100")], []),
        # A scan-to-pay that was debited before the service showed its amount.
        ([night(2, "995"), night(3, "995", unpriced="5")], []),
        # A balance that could not be read, or that moved meanwhile, is judged by the next one.
        ([night(2, None, arrived="100"), night(3, "895")], [(3, "-5")]),
        ([night(2, "995", "5"), night(3, "995")], [(3, "-5")]),
        ([night(2, "990", "5")], [(2, "-5")]),
    ],
)
def test_what_no_entry_explains_is_a_lot_that_stays(later: Sequence[Night], found: list[tuple[int, str]]) -> None:
    assert lots(OPENED, *later) == found


def test_what_was_open_at_the_opening_stays_uncertain() -> None:
    opened = night(1, "1000", in_flight="30")
    final = roll("USDT", [opened, night(2, "1000", arrived="30")])
    assert (final.lots, final.explained_low, final.explained_high) == ((), D(-30), D(0))
    assert judge_account(final, ()).note == (
        "not provable: between 0 and 30, because of orders that were open when the account was opened"
    )
    assert lots(opened, night(2, "969", arrived="30")) == [(2, "-1")]


def test_an_account_says_how_much_open_orders_leave_unproven() -> None:
    flows = Flows(in_flight=D("2000.00"), open_orders=1, open_since=0)
    drawn = judge_account(roll("USDT", [OPENED, Night(9 * 86_400_000, D(1000), flows=flows)]), ())
    assert drawn.note == "not provable: between 0 and 2000, because of 1 open order, the oldest for 9 days"


def test_the_four_nights_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reconciliation.md").read_text()
    opening = night(1, "1000")
    second = night(2, "850", arrived="100")
    third = Night(3, D("850"), flows=Flows(in_flight=D(200), open_orders=1, open_since=3))
    fourth = night(4, "700", arrived="200")
    assert lots(opening, second) == [(2, "-50")]
    rolled = roll("USDT", [opening, second, third])
    assert rolled.explained_low is not None
    assert rolled.explained_high is not None
    assert (1000 + rolled.explained_low, 1000 + rolled.explained_high) == (700, 900)
    assert f"`{judge_account(rolled, ()).note}`" in page
    assert lots(opening, second, third, fourth) == [(2, "-50"), (4, "50")]
    rows = [line for line in page.splitlines() if line.startswith(("| 1 |", "| 2 |", "| 3 |", "| 4 |"))]
    assert [row.split("|")[3].strip() for row in rows] == ["1,000", "850", "850", "700"]


def test_judgements_go_by_what_nobody_accepted() -> None:
    gone = roll("USDT", [OPENED, night(2, "995"), night(3, "1002")])
    assert [lot.amount for lot in gone.lots] == [-5, 7]
    drawn = judge_account(gone, ())
    assert (drawn.judgement, drawn.unexplained, drawn.adjusted) == (BalanceJudgement.OUTFLOW, 2, 0)
    drawn = judge_account(gone, gone.lots[:1])
    assert (drawn.judgement, drawn.unexplained, drawn.adjusted) == (BalanceJudgement.INFLOW, 7, -5)
    assert judge_account(gone, gone.lots).judgement is BalanceJudgement.EXPLAINED
    assert judge_account(roll("USDT", [OPENED]), ()).judgement is BalanceJudgement.FIRST


def test_what_was_read_before_and_cannot_be_now_is_unread_and_its_lots_stay() -> None:
    refused = Night(3, None, refused=True, note="code 500")
    account = roll("USDT", [OPENED, night(2, "995"), refused])
    assert (account.is_unread, judge_account(account, ()).judgement) == (True, BalanceJudgement.UNREADABLE)
    assert account.lots == (Lot(2, D(-5)),)
    never = roll("USDT", [Night(1, None, refused=True)])
    assert (never.is_unread, never.opening) == (False, None)
    assert roll("USDT", [Night(1, None)]).is_unread


def test_codes_that_show_one_pooled_balance_are_explained_together() -> None:
    together = {
        "USDT": [night(1, "100"), night(2, "70", arrived="10")],
        "USDT_TRC20": [night(1, "100"), night(2, "70", arrived="20")],
        "ETH": [night(1, "100"), night(2, "70", arrived="30")],
    }
    assert all(not roll(currency, nights).lots for currency, (_, nights) in pooled(together).items())
    apart = {"USDT": together["USDT"], "USDT_TRC20": [night(1, "9"), night(2, "7")]}
    assert [lot.amount for lot in roll("USDT", pooled(apart)["USDT"][1]).lots] == [-20]


def test_a_night_on_which_one_code_could_not_be_read_leaves_a_pooled_balance_one() -> None:
    """A loss of that night is found as of it, once, whichever of the codes it was."""
    for unread in ("USDT", "USDT_TRC20"):
        series = {
            "USDT": [night(1, "100"), night(2, "70", arrived="10"), night(3, "65"), night(4, "65")],
            "USDT_TRC20": [night(1, "100"), night(2, "70", arrived="20"), night(3, "65"), night(4, "65")],
        }
        series[unread][2] = Night(3, None, note="no answer")
        for nights in (3, 4):
            so_far = {currency: some[:nights] for currency, some in series.items()}
            found = {code: roll(code, some, codes) for code, (codes, some) in pooled(so_far).items()}
            assert {code: account.codes for code, account in found.items()} == dict.fromkeys(series, tuple(series))
            assert [code for code, account in found.items() if account.is_unread] == ([unread] if nights == 3 else [])
        assert {account.lots for account in found.values()} == {(Lot(3, D(-5)),)}


WHAT = ("order", "order", "end", "theft", "deposit", "receipt", "return", "orphan", "told")


@dataclass
class World:
    """A balance that orders, thieves and customers move, and what the ledger is told of it, later or never."""

    chance: random.Random
    balance: Decimal = D(10_000)
    unseen: Decimal = D(0)
    """Moved since the opening and is in no entry."""
    open: list[tuple[Decimal, bool]] = field(default_factory=list)
    """Amount, and whether it is debited already."""
    unknown: list[tuple[int, Decimal]] = field(default_factory=list)
    """Paid by the service, on that day, although the ledger had them as failed."""
    nights: list[Night] = field(default_factory=list)

    def amount(self) -> Decimal:
        return D(self.chance.randint(1, 99_999)) / 100

    def day(self, number: int) -> None:
        sums: dict[str, Any] = dict.fromkeys(("arrived", "received", "found", "returned"), D(0))
        for _ in range(self.chance.randint(0, 6)):
            amount = self.amount()
            what = self.chance.choice(WHAT)
            if what == "order":
                debited = self.chance.random() < 0.5
                self.balance -= amount if debited else 0
                self.open.append((amount, debited))
            elif what == "end" and self.open:
                amount, debited = self.open.pop(self.chance.randrange(len(self.open)))
                arrives = self.chance.random() < 0.7
                self.balance -= amount * (int(arrives) - int(debited))
                sums["arrived"] += amount if arrives else 0
            elif what in ("theft", "deposit"):
                moved = -amount if what == "theft" else amount
                self.balance += moved
                self.unseen += moved if number else 0
            elif what == "receipt":
                self.balance += amount
                sums["received"] += amount
            elif what == "return":
                self.balance += amount
                sums["arrived"] -= amount
                sums["returned"] += amount
            elif what == "orphan":
                self.balance -= amount
                self.unseen -= amount if number else 0
                self.unknown.append((number, amount))
            elif what == "told" and self.unknown:
                _, amount = self.unknown.pop()
                self.unseen += amount if number else 0
                sums["arrived"] += amount
                sums["found"] += amount
        read = self.chance.random() < 0.85 or number == 0
        flows = Flows(**sums, in_flight=sum((amount for amount, _ in self.open), D(0)))
        self.nights.append(Night(number, self.balance if read else None, flows=flows))


@pytest.mark.parametrize("part", range(3))
def test_no_unseen_movement_is_lost_or_made_up_in_any_world(part: int) -> None:
    """An unseen movement is named, or lies inside the interval of what is open; the sums agree after every night."""
    worlds = 1_000
    for seed in range(part * worlds, (part + 1) * worlds):
        world = World(random.Random(seed))
        for number in range(world.chance.randint(2, 10)):
            world.day(number)
            account = roll("USDT", world.nights)
            if account.closing is not None and number:
                judge(world, account, seed)


def judge(world: World, account: BalanceAccount, seed: int) -> None:
    assert account.explained_low is not None
    assert account.explained_high is not None
    width = account.explained_high - account.explained_low
    assert width == world.nights[0].flows.in_flight + world.nights[-1].flows.in_flight, seed
    assert abs(sum((lot.amount for lot in account.lots), D(0)) - world.unseen) <= width, seed


def test_where_nothing_is_open_every_unseen_movement_is_a_lot_of_its_night() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        balance, nights, unseen = D(1000), [Night(0, D(1000))], []
        for number in range(1, 8):
            moved = D(chance.choice((0, 0, -5, 7, -100, 100)))
            paid = D(chance.randint(0, 50))
            balance += moved - paid
            nights.append(Night(number, balance, flows=Flows(arrived=paid)))
            if moved:
                unseen.append((number, moved))
            assert [(lot.at, lot.amount) for lot in roll("USDT", nights).lots] == unseen
