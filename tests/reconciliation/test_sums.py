"""The sums explain themselves: the statement of orders."""

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from treasury.orders.states import OPEN, STEPS, State
from treasury.reconciliation.order_statement import Move, StatementLine, draw_statement

D = Decimal


def move(source: State, target: State, amount: str = "10", fee: str | None = None) -> Move:
    return Move("USDT", D(amount), source, target, None, None if fee is None else D(fee))


def line(*moves: Move, opening: str = "0", closing: str = "0") -> StatementLine:
    [drawn] = draw_statement({"USDT": D(opening)}, moves, {"USDT": D(closing)})
    return drawn


def test_an_order_that_arrived_is_sent_and_arrived() -> None:
    drawn = line(move(State.PREPARED, State.SENDING), move(State.SENDING, State.SETTLED, fee="0.1"))
    assert (drawn.sent, drawn.arrived, drawn.fees, drawn.failed_and_returned) == (10, D("9.9"), D("0.1"), 0)
    assert drawn.residual == 0


def test_a_fee_on_top_or_in_another_currency_is_no_part_of_the_sum() -> None:
    steps = [move(State.PREPARED, State.SENDING), replace(move(State.SENDING, State.SETTLED, fee="1"), is_on_top=True)]
    drawn = line(*steps)
    assert (drawn.arrived, drawn.fees, drawn.fees_beside, drawn.residual) == (10, 0, 1, 0)
    steps[1] = replace(steps[1], is_on_top=False, fee_currency="ETH")
    ether, drawn = draw_statement({}, steps, {})
    assert (drawn.arrived, drawn.fees, drawn.residual, ether.fees_beside, ether.residual) == (10, 0, 0, 1, 0)


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
    assert (drawn.sent, drawn.arrived, drawn.failed_and_returned, drawn.fees) == (0, D("-9.9"), 10, D("-0.1"))
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
