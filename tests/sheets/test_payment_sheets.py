"""The sheets of withdrawals and of QR codes: rows become wire bodies, and what is wrong is named by its column."""

import csv
from decimal import Decimal
from pathlib import Path

import pytest

import data
from treasury.errors import InvalidSheet
from treasury.promptpay import BILL, build_promptpay, checksum
from treasury.sheets.qr_codes import read_qr_codes
from treasury.sheets.withdrawals import read_withdrawals

ADDRESS = "TDBaAMzsQ3d7xqqgw8CWCzbAZGPdARHsMa"
MOVED = {
    "row_ref": "w-1",
    "currency": "USDT_TRC20",
    "address": ADDRESS,
    "amount": "25.50",
    "customer_ref_id": "treasury",
}
OPEN, FIXED = build_promptpay("0812345678"), build_promptpay("0812345678", Decimal("100.50"), "Example Shop")
PAID = {
    "row_ref": "q-1",
    "qrcode": OPEN,
    "amount": "32",
    "user_xid": "owner-1",
    "notify_url": "https://hooks.example.com/x",
}


def write(folder: Path, row: dict[str, str]) -> Path:
    path = folder / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)
    return path


def test_the_samples_are_read() -> None:
    moved, paid = read_withdrawals(data.path("withdrawals.csv")), read_qr_codes(data.path("qr_codes.csv"))
    assert [(row.currency, row.amount) for row in moved] == [
        ("USDT_TRC20", Decimal("250.50")),
        ("ETH", Decimal("0.75")),
    ]
    assert [(row.currency, row.amount, row.receive_amount) for row in paid] == [
        ("USDT", None, Decimal(320)),
        ("USDT", None, Decimal(1250)),
    ]


def test_a_withdrawal_says_what_is_sent(tmp_path: Path) -> None:
    [row] = read_withdrawals(write(tmp_path, MOVED | {"tag": "0007", "description": "cold"}))
    assert row.fields == {
        **{name: value for name, value in MOVED.items() if name != "row_ref"},
        "tag": "0007",
        "description": "cold",
    }
    assert (row.payee, row.way.operation) == ("tdbaamzsq3d7xqqgw8cwczbazgpdarhsma|0007", "withdraw")


RIPPLE = {"currency": "XRP", "address": "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh"}


def test_a_destination_tag_is_a_number_in_one_way(tmp_path: Path) -> None:
    """12345 and 0012345 are one customer, and two rows to it were not seen to be alike."""
    for tag in ("0", "12345", "4294967295"):
        [row] = read_withdrawals(write(tmp_path, MOVED | RIPPLE | {"tag": tag}))
        assert row.fields["tag"] == tag


@pytest.mark.parametrize(
    ("change", "column", "said"),
    [
        ({"address": ADDRESS[:-1] + "b"}, "address", "checksum"),
        ({"address": "0xde709f2102306220921060314715629080e2fb77"}, "address", "Tron"),
        ({"address": ADDRESS.replace("a", "а")}, "address", ""),
        ({"amount": "0"}, "amount", ""),
        ({"amount": "1,5"}, "amount", ""),
        ({"customer_ref_id": ""}, "customer_ref_id", ""),
        ({**RIPPLE}, "tag", "destination tag"),
        *(({**RIPPLE, "tag": tag}, "tag", "no destination tag") for tag in ("0012345", "4294967296", "memo", "1e5")),
    ],
)
def test_a_wrong_withdrawal_is_named_by_its_column(
    change: dict[str, str], column: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidSheet) as found:
        read_withdrawals(write(tmp_path, MOVED | change))
    assert [problem.column for problem in found.value.problems] == [column]
    assert said in found.value.problems[0].rule


def test_an_address_that_no_rule_judges_is_said(tmp_path: Path) -> None:
    rows = read_withdrawals(write(tmp_path, MOVED | {"currency": "USDT", "address": "anything"}))
    assert rows.notes == ("addresses not checked, for no rule is known: USDT",)


def test_a_code_says_its_own_amount(tmp_path: Path) -> None:
    [row] = read_qr_codes(write(tmp_path, PAID | {"qrcode": FIXED, "amount": ""}))
    assert (row.receive_amount, row.receive_currency, row.currency) == (Decimal("100.50"), "THB", "USDT")
    assert (row.account, row.payee_name) == ("0066812345678", "Example Shop")


def test_where_the_service_reports_may_be_a_setting_and_is_no_part_of_the_payment(tmp_path: Path) -> None:
    [one] = read_qr_codes(write(tmp_path, {**PAID, "notify_url": ""}), notify_url="https://a.example.com/")
    [other] = read_qr_codes(write(tmp_path, {**PAID, "notify_url": ""}), notify_url="https://b.example.com/")
    assert one.fields["notify_url"] != other.fields["notify_url"]
    assert one.bound_content == other.bound_content


@pytest.mark.parametrize(
    ("change", "column", "said"),
    [
        ({"qrcode": OPEN[:-1] + "0"}, "qrcode", "checksum"),
        ({"qrcode": "https://example.com"}, "qrcode", "checksum"),
        ({"qrcode": FIXED, "amount": "100"}, "amount", "100.50 THB"),
        ({"amount": ""}, "amount", "the code says none"),
        ({"notify_url": ""}, "notify_url", "TREASURY_NOTIFY_URL"),
        ({"user_xid": "x" * 21}, "user_xid", "20"),
        ({"max_pay_amount": "0"}, "max_pay_amount", "greater than zero"),
    ],
)
def test_a_wrong_code_is_named_by_its_column(change: dict[str, str], column: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSheet) as found:
        read_qr_codes(write(tmp_path, PAID | change))
    assert [problem.column for problem in found.value.problems] == [column]
    assert said in found.value.problems[0].rule


def bill(reference: str) -> str:
    """A bill of one biller, by its first reference."""
    inner = f"0016{BILL}0115010753600031501{'02'}{len(reference):02d}{reference}"
    text = f"00020101021130{len(inner):02d}{inner}53037645802TH6304"
    return text + checksum(text)


def test_two_codes_of_one_account_are_one_payee_and_another_bill_is_another(tmp_path: Path) -> None:
    [one] = read_qr_codes(write(tmp_path, PAID))
    [other] = read_qr_codes(write(tmp_path, PAID | {"qrcode": FIXED, "amount": ""}))
    assert one.payee == other.payee
    [first] = read_qr_codes(write(tmp_path, PAID | {"qrcode": bill("INV1")}))
    [second] = read_qr_codes(write(tmp_path, PAID | {"qrcode": bill("INV2")}))
    assert (first.account, first.payee == second.payee) == (second.account, False)
