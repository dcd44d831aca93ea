"""A run beside the last one that paid the same people: amounts, names, who came and went, and the totals."""

from decimal import Decimal

from treasury.planning.shown import Payment, compare_runs


def payment(
    row_ref: str, payee: str, amount: str, currency: str = "USDT", name: str | None = "n", **more: str
) -> Payment:
    debit = Decimal(more.get("debit", amount))
    return Payment(row_ref, payee, name, currency, Decimal(amount), more.get("debits", currency), debit)


def test_several_payments_to_one_payee_are_compared_by_their_sum() -> None:
    last = [payment("1", "p", "60"), payment("2", "p", "40")]
    beside = compare_runs([payment("9", "p", "100")], "october", last, [{"USDT": Decimal(100)}], Decimal(20))
    assert (beside.gone, beside.new, beside.differs) == ((), (), {})
    twice = compare_runs([payment("8", "p", "100"), payment("9", "p", "100")], "october", last, [{}], Decimal(20))
    assert twice.differs == dict.fromkeys(("8", "9"), "200 USDT (+100 %) instead of 100 in run october")


def test_amounts_of_different_currencies_are_never_compared() -> None:
    last = [payment("1", "p", "100")]
    beside = compare_runs([payment("9", "p", "100", "EUR")], "october", last, [{"USDT": Decimal(100)}], Decimal(20))
    assert beside.differs == {"9": "100 EUR instead of 0, 0 USDT instead of 100 in run october"}
    assert beside.totals == ("the last run like it: 0 EUR",)


def test_what_is_received_is_compared_where_the_row_fixes_it() -> None:
    last = [payment("1", "p", "100", "EUR", debits="USDT", debit="110")]
    run = [payment("9", "p", "100", "EUR", debits="USDT", debit="150")]
    beside = compare_runs(run, "october", last, [{"USDT": Decimal(110)}], Decimal(20))
    assert beside.differs == {}
    assert beside.totals == ("the last run like it: 110 USDT; this one is +36 %",)


def test_one_account_under_two_names_is_said_and_a_missing_name_is_not() -> None:
    last = [payment("1", "p", "1", name="old"), payment("2", "q", "1", name=None)]
    run = [payment("8", "p", "1", name="old"), payment("9", "p", "0.1", name="new"), payment("7", "q", "1", name="x")]
    beside = compare_runs(run, "october", last, [{"USDT": Decimal(2)}] * 3, Decimal(20))
    assert beside.renamed == dict.fromkeys(("8", "9"), "this sheet pays this account under different names")
    assert beside.totals == ("the mean of the last 3 runs like it: 2 USDT; this one is +5 %",)
