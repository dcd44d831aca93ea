"""Invoices and deposits as a report sees them, and what is remarkable of some of them together."""

from typing import Any

from tests.reconciliation.sides import AS_OF, HOUR

DAY = 24 * HOUR
Side = dict[str, Any]


def invoice(name: str = "i", amount: str = "100", status: int = 11, age: float = 0.5, **more: Any) -> Side:
    """An invoice that was made so many days ago, as the service shows it now."""
    asked = {"request_id": name, "operation": "pay", "currency": "USDT", "amount": amount, "created_at": ago(age)}
    asked |= {"run_key": "november", "row_ref": f"row-{name}", "to": f"address of {name}"}
    return {**asked, "answer": "found", "status": status, "seen_currency": "USDT", "seen_amount": amount, **more}


def deposit(name: str = "d", amount: str = "100", to: str | None = None, age: float = 0.1, **more: Any) -> Side:
    """A deposit that finished so many days ago."""
    told = {"request_id": name, "operation": "pay", "currency": "USDT", "amount": amount, "created_at": ago(age)}
    told |= {"order_type": "charge", "answer": "found", "status": 99, "seen_currency": "USDT", "seen_amount": amount}
    return {**told, "to": to, "sender": "***4711", "raw": {"finish_time": str(ago(age) // 1000)}, **more}


def ago(days: float) -> int:
    return AS_OF - int(days * DAY)


ARRIVALS: list[tuple[dict[str, str], list[Side]]] = [
    # An invoice alone.
    ({}, [invoice()]),
    ({"i": "unpaid_invoice"}, [invoice(age=1.1)]),
    ({"i": "unpaid_invoice"}, [invoice(status=88)]),
    ({"i": "unpaid_invoice"}, [invoice(status=44)]),
    ({}, [invoice(status=99, age=30, raw={"finish_time": str(ago(29.5) // 1000)})]),
    ({"i": "paid_late"}, [invoice(status=99, age=30, raw={"finish_time": str(ago(28) // 1000)})]),
    ({"i": "paid_late"}, [invoice(status=99, age=30, raw={"finish_time": str(ago(28))})]),
    ({}, [invoice(status=99, age=30)]),
    ({}, [invoice(status=88, order_type="pay")]),  # of another program: nobody here expects it
    ({"i": "unexpected_deposit"}, [invoice(status=99, order_type="pay")]),
    ({"p": "unexpected_deposit"}, [invoice(), invoice("p", status=99, order_type="pay")]),
    ({}, [invoice(status=88, answer="absent")]),  # which another class names
    # A deposit alone.
    ({"d": "unexpected_deposit"}, [deposit()]),
    ({"d": "unexpected_deposit"}, [deposit(to="somewhere")]),
    ({}, [deposit(to="ann's")]),
    ({}, [deposit(status=11)]),
    # By address and exact amount.
    ({}, [invoice(), deposit(to="address of i")]),
    ({}, [invoice(created_at=ago(0.1) // 1000 * 1000 + 900), deposit(to="address of i")]),  # in the same second
    ({"i": "likely_paid"}, [invoice(created_at=ago(0.1) // 1000 * 1000 + 900), deposit()]),
    ({"i": "likely_paid"}, [invoice(created_at=ago(0.1) // 1000 * 1000 + 900), deposit(amount="99.5")]),
    ({"i": "paid_late"}, [invoice(status=88, age=3), deposit(to="address of i")]),
    ({}, [invoice(status=88, age=3), deposit(to="address of i", age=2.5)]),
    # Only alike: a person says yes.
    ({"i": "likely_paid"}, [invoice(), deposit()]),
    ({"i": "likely_paid"}, [invoice(), deposit(to="ann's")]),
    ({"i": "likely_paid"}, [invoice(), deposit(amount="99")]),
    ({"i": "likely_paid"}, [invoice(), deposit(amount="60", to="address of i")]),
    ({"d": "unexpected_deposit"}, [invoice(), deposit(amount="98.99")]),
    ({"d": "unexpected_deposit"}, [invoice(), deposit(seen_currency="ETH", currency="ETH")]),
    ({"i": "unpaid_invoice", "d": "unexpected_deposit"}, [invoice(status=88, age=9), deposit(age=0.5)]),
    ({"d": "unexpected_deposit"}, [invoice(age=0.1), deposit(age=0.5)]),  # it came before the invoice was made
    ({"d": "unexpected_deposit"}, [invoice(status=99, age=0.2), deposit()]),
    # One deposit pays one invoice.
    ({"a": "likely_paid"}, [invoice("a"), invoice("b", amount="100.5"), deposit(amount="100")]),
    ({"i": "likely_paid", "e": "unexpected_deposit"}, [invoice(), deposit("d"), deposit("e", amount="100.4")]),
    ({"b": "likely_paid"}, [invoice("a"), invoice("b"), deposit("d", to="address of a"), deposit("e")]),
]
