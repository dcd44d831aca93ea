"""The sums explain themselves: the statement of orders, and the proof of the balances beside it."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treasury.orders.states import OPEN, STEPS, State
from treasury.reconciliation.balances import BalanceSeen, Flows, Judgement, pool, prove_balance
from treasury.reconciliation.statement import Move, StatementLine, draw_statement

D = Decimal


def move(source: State, target: State, amount: str = "10", fee: str | None = None) -> Move:
    return Move("USDT", D(amount), source, target, None, None if fee is None else D(fee))


def line(*moves: Move, opening: str = "0", closing: str = "0") -> StatementLine:
    [drawn] = draw_statement({"USDT": D(opening)}, moves, {"USDT": D(closing)})
    return drawn


def test_an_order_that_arrived_is_sent_and_arrived() -> None:
    drawn = line(move(State.PREPARED, State.SENDING), move(State.SENDING, State.SETTLED, fee="0.1"))
    assert (drawn.sent, drawn.arrived, drawn.fees, drawn.failed_and_returned) == (10, 10, D("0.1"), 0)
    assert drawn.residual == 0


def test_what_never_left_was_not_sent() -> None:
    drawn = line(
        move(State.PREPARED, State.SENDING),
        move(State.SENDING, State.PREPARED),
        move(State.PREPARED, State.SENDING),
        move(State.SENDING, State.REJECTED),
    )
    assert (drawn.sent, drawn.arrived, drawn.failed_and_returned, drawn.residual) == (0, 0, 0, 0)


def test_a_late_flip_moves_the_amount_to_the_other_side() -> None:
    drawn = line(move(State.SETTLED, State.FAILED, fee="0.1"))
    assert (drawn.sent, drawn.arrived, drawn.failed_and_returned, drawn.fees) == (0, -10, 10, D("-0.1"))
    assert drawn.residual == 0


def test_in_flight_is_carried_from_night_to_night() -> None:
    drawn = line(
        move(State.PREPARED, State.SENDING, "5"), move(State.ACCEPTED, State.CLOSED), opening="10", closing="5"
    )
    assert (drawn.sent, drawn.failed_and_returned, drawn.residual) == (5, 10, 0)


def test_a_step_that_is_missing_from_the_journal_leaves_a_residual() -> None:
    assert line(move(State.PREPARED, State.SENDING), closing="0").residual == 10
    assert line(closing="0.000000000000000001").residual == D("-0.000000000000000001")


STEPS_TAKEN = [(source, step.target) for step in STEPS.values() for source in step.sources]


@given(st.lists(st.lists(st.integers(0, 10_000), max_size=8), max_size=8), st.data())
def test_any_history_that_keeps_to_the_step_table_explains_itself(orders: list[list[int]], data: st.DataObject) -> None:
    moves, closing = [], D(0)
    for choices in orders:
        amount = data.draw(st.decimals("0.000001", "1000000", places=6))
        state = State.PREPARED
        for choice in choices:
            after = [target for source, target in STEPS_TAKEN if source is state]
            if not after:
                break
            target = after[choice % len(after)]
            moves.append(Move("JPY", amount, state, target))
            state = target
        closing += amount if state in OPEN else 0
    assert all(drawn.residual == 0 for drawn in draw_statement({}, moves, {"JPY": closing}))


def proof(change: str, before: str | None = None, **flows: str) -> tuple[Judgement, Decimal | None]:
    closing = D(1000) + D(change)
    seen = BalanceSeen("USDT", closing if before is None else D(before), closing, D(1000))
    drawn = prove_balance(seen, Flows(**{name: D(amount) for name, amount in flows.items()}))
    return drawn.judgement, drawn.unexplained


@pytest.mark.parametrize(
    ("change", "flows", "judgement", "unexplained"),
    [
        ("0", {}, Judgement.EXPLAINED, "0"),
        ("-100", {"arrived": "100"}, Judgement.EXPLAINED, "0"),
        ("-100.01", {"arrived": "100"}, Judgement.OUTFLOW, "-0.01"),
        ("-100.01", {"arrived": "100", "fees": "0.01"}, Judgement.EXPLAINED, "0"),
        ("-99.99", {"arrived": "100"}, Judgement.INFLOW, "0.01"),
        ("50", {"received": "50"}, Judgement.EXPLAINED, "0"),
        ("-30", {"closing_in_flight": "30"}, Judgement.EXPLAINED, "0"),
        ("0", {"closing_in_flight": "30"}, Judgement.EXPLAINED, "0"),
        ("-31", {"closing_in_flight": "30"}, Judgement.OUTFLOW, "-1"),
        ("0", {"arrived": "30", "opening_in_flight": "30"}, Judgement.EXPLAINED, "0"),
        ("7", {"receiving": "7"}, Judgement.EXPLAINED, "0"),
        ("-7", {"unpriced": "7"}, Judgement.EXPLAINED, "0"),
    ],
)
def test_a_balance_is_explained_by_what_became_final_and_what_is_on_its_way(
    change: str, flows: dict[str, str], judgement: Judgement, unexplained: str
) -> None:
    assert proof(change, **flows) == (judgement, D(unexplained))


def test_the_first_night_a_moving_and_an_unreadable_balance_are_not_judged() -> None:
    assert prove_balance(BalanceSeen("USDT", D(1), D(1), None), Flows()).judgement is Judgement.FIRST
    assert proof("0", before="1001") == (Judgement.MOVING, None)
    assert prove_balance(BalanceSeen("USDT", None, None, D(1)), Flows()).judgement is Judgement.UNREADABLE


def test_codes_that_show_one_pooled_balance_are_explained_together() -> None:
    seen = [BalanceSeen(code, D(70), D(70), D(100)) for code in ("USDT", "USDT_TRC20")]
    seen.append(BalanceSeen("ETH", D(70), D(70), D(100)))
    pooled = pool(seen, {"USDT": Flows(arrived=D(10)), "USDT_TRC20": Flows(arrived=D(20)), "ETH": Flows(arrived=D(30))})
    assert all(prove_balance(each, pooled[each.currency]).judgement is Judgement.EXPLAINED for each in seen)
    alone = pool([seen[0], BalanceSeen("USDT_TRC20", D(7), D(7), D(9))], {"USDT": Flows(arrived=D(10))})
    assert alone["USDT"].arrived == 10
    assert alone["USDT_TRC20"].arrived == 0
