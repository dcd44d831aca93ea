"""The beneficiaries sheet: rows become wire bodies, and what is wrong is named by the sheet's own columns."""

import csv
import re
from decimal import Decimal
from pathlib import Path

import pytest

import data
from tests.sheets import books
from treasury.errors import InvalidSheet
from treasury.orders.rows import PayoutRow, Route
from treasury.provider.fiat_payouts import FiatPayoutQuote
from treasury.provider.orders import Payout
from treasury.sandbox.routes import BANK_FIELDS, CHANNELS, find_route
from treasury.sheets.beneficiaries import read_beneficiaries

BANK = {name: cell for name, cell in books.BANK.items() if name != "remark"} | {"account_no": "9081726354"}
PERSON = {name: cell for name, cell in books.PERSON.items() if name != "date_of_birth"}
WALLET = BANK | {
    "payout_method": "wallet_transfer",
    "bank_code": "",
    "wallet_code": "ovo",
    "account_type": "PHONE",
}
COMPANY = PERSON | {"account_type": "ENTERPRISE", "full_name": "", "company_name": "Muster GmbH"}
DEST = PERSON | {"quote_mode": "dest", "pay_amount": "", "receive_amount": "90"}


def write(folder: Path, *rows: dict[str, str]) -> Path:
    path = folder / "beneficiaries.csv"
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def read_one(folder: Path, row: dict[str, str]) -> PayoutRow:
    [read] = read_beneficiaries(write(folder, row))
    return read


def problems(folder: Path, *rows: dict[str, str]) -> dict[str, str]:
    """Column -> rule of all problems."""
    with pytest.raises(InvalidSheet) as caught:
        read_beneficiaries(write(folder, *rows))
    assert caught.value.problems[0].row_ref == "r1"
    return {problem.column: problem.rule for problem in caught.value.problems}


def test_a_direct_row_is_the_body_of_a_payout(tmp_path: Path) -> None:
    row = read_one(tmp_path, BANK)
    sent = {key: value for key, value in BANK.items() if key not in ("row_ref", "route")}
    assert row.fields == sent
    assert Payout(request_id="x", **row.fields).body() == {**sent, "request_id": "x"}
    assert (row.line, row.row_ref, row.route) == (2, "r1", Route.DIRECT)
    assert (row.currency, row.amount) == ("USDT_TRC20", Decimal("12.50"))
    assert (row.receive_currency, row.receive_amount) == ("IDR", None)
    assert (row.purpose_code, row.description, row.duplicate_ok) == (None, None, None)


def test_a_quoted_row_is_the_body_of_a_quote_and_its_confirmation(tmp_path: Path) -> None:
    row = read_one(tmp_path, PERSON)
    assert row.fields["individual_beneficiary"] == {
        "account_no": "DE02120300000000202051",
        "bank_name": "Musterbank",
        "address": "Ring 1, Köln",
        "full_name": "Zoë Muster",
    }
    assert row.fields["beneficiaryFields"] == {"swift": "BYLADEM1001"}
    assert "request_id" not in row.fields
    assert FiatPayoutQuote(request_id="x", **row.fields).body() == {**row.fields, "request_id": "x"}
    assert (row.purpose_code, row.description) == ("01", "November")
    assert (row.currency, row.amount) == ("USDT", Decimal("100.00"))
    assert (row.receive_currency, row.receive_amount) == ("EUR", None)


def test_an_enterprise_goes_into_its_own_object(tmp_path: Path) -> None:
    fields = read_one(tmp_path, COMPANY).fields
    assert fields["enterprise_beneficiary"]["company_name"] == "Muster GmbH"
    assert "individual_beneficiary" not in fields


def test_in_dest_mode_the_debit_is_not_known(tmp_path: Path) -> None:
    row = read_one(tmp_path, DEST)
    assert (row.currency, row.amount) == ("USDT", None)
    assert (row.receive_currency, row.receive_amount) == ("EUR", Decimal(90))


def test_letter_case_of_listed_values_does_not_matter(tmp_path: Path) -> None:
    low = PERSON | {"route": "Quoted", "account_type": "personal", "quote_mode": "SOURCE"}
    assert read_one(tmp_path, low).fields == read_one(tmp_path, PERSON).fields


def test_an_iso_code_of_a_country_and_currency_is_demanded_of_quotes(tmp_path: Path) -> None:
    found = problems(tmp_path, PERSON | {"beneficiary_country": "Germany", "receive_currency": "Euro"})
    assert set(found) == {"beneficiary_country", "receive_currency"}


# Every limit and condition of the document for a payout and a quote, and the column that must be named.
WRONG = [
    (BANK, {"route": ""}, "route", "must be direct or quoted"),
    (BANK, {"route": "swift"}, "route", "must be direct or quoted"),
    *((BANK, {column: ""}, column, "is required") for column in BANK if column not in ("row_ref", "route")),
    (WALLET, {"account_type": ""}, "account_type", "is required when payout_method is wallet_transfer"),
    (WALLET, {"wallet_code": ""}, "wallet_code", "is required when payout_method is wallet_transfer"),
    (WALLET, {"account_type": "UID"}, "account_type", "must be one of PHONE, EMAIL, CPF, CNPJ"),
    (BANK, {"payout_method": "cash"}, "payout_method", "must be one of bank_transfer, wallet_transfer"),
    (BANK, {"amount": "0"}, "amount", "must be greater than zero"),
    (BANK, {"amount": "-1"}, "amount", "must be greater than zero"),
    (BANK, {"amount": "1,50"}, "amount", "plain digits"),
    (BANK, {"amount": "1e3"}, "amount", "plain digits"),
    (BANK, {"account_name": "Budi"}, "account_name", "at least 5"),
    (BANK, {"account_name": "B" * 101}, "account_name", "at most 100"),
    (BANK, {"remark": "r" * 41}, "remark", "at most 40"),
    (BANK, {"bank_routing_code": "r" * 101}, "bank_routing_code", "at most 100"),
    (BANK, {"purpose_code": "01"}, "purpose_code", "must be blank on a direct row"),
    (BANK, {"bank_name": "Bank"}, "bank_name", "must be blank on a direct row"),
    (BANK, {"field.swift": "X"}, "field.swift", "must be blank on a direct row"),
    (PERSON, {"wallet_code": "ovo"}, "wallet_code", "must be blank on a quoted row"),
    (PERSON, {"amount": "5"}, "amount", "must be blank on a quoted row"),
    *(
        (PERSON, {column: ""}, column, "is required")
        for column in PERSON
        if column not in ("row_ref", "route", "description", "full_name", "field.swift", "account_type", "quote_mode")
    ),
    (PERSON, {"account_type": ""}, "account_type", "is required"),
    (PERSON, {"account_type": "CLUB"}, "account_type", "must be one of PERSONAL, ENTERPRISE"),
    (PERSON, {"pay_amount": "0.00"}, "pay_amount", "must be greater than zero"),
    (DEST, {"receive_amount": ""}, "receive_amount", "is required when quote_mode is dest"),
    (PERSON, {"beneficiary_relationship": "friend"}, "beneficiary_relationship", "must be one of own, third"),
    (PERSON, {"gender": "x"}, "gender", "must be one of male, female"),
    (PERSON, {"date_of_birth": "17.04.1988"}, "date_of_birth", "YYYY-MM-DD"),
    (PERSON, {"date_of_birth": "1988-02-30"}, "date_of_birth", "a date that exists"),
    (PERSON, {"nationality": "German"}, "nationality", "alpha-2"),
    (PERSON, {"company_name": "Muster GmbH"}, "company_name", "must be blank when account_type is PERSONAL"),
    (COMPANY, {"full_name": "Zoë Muster"}, "full_name", "must be blank when account_type is ENTERPRISE"),
    (COMPANY, {"address": ""}, "address", "is required"),
    (PERSON, {"purpose_code": "1"}, "purpose_code", "write 01"),
    (PERSON, {"purpose_code": "001"}, "purpose_code", "two digits"),
]


@pytest.mark.parametrize(("row", "change", "column", "rule"), WRONG)
def test_what_is_wrong_is_named_by_its_column(
    tmp_path: Path, row: dict[str, str], change: dict[str, str], column: str, rule: str
) -> None:
    found = problems(tmp_path, row | change)
    assert list(found) == [column]
    assert rule in found[column]


def test_a_missing_mode_is_named(tmp_path: Path) -> None:
    assert "quote_mode" in problems(tmp_path, PERSON | {"quote_mode": ""})


def test_all_problems_of_all_rows_come_together(tmp_path: Path) -> None:
    path = write(tmp_path, BANK | {"amount": "x", "phone": ""}, PERSON | {"row_ref": "r2", "gender": "?"}, BANK)
    with pytest.raises(InvalidSheet) as caught:
        read_beneficiaries(path)
    found = [(problem.row, problem.row_ref, problem.column) for problem in caught.value.problems]
    assert sorted(found) == [
        (2, "r1", "amount"),
        (2, "r1", "phone"),
        (3, "r2", "gender"),
        (4, "r1", "row_ref"),
    ]


def test_personal_values_are_masked_in_errors(tmp_path: Path) -> None:
    secret = {"account_name": "Ann", "account_no": "4000111122223333", "field.iban": "DE1234", "address": "Elm St"}
    with pytest.raises(InvalidSheet) as caught:
        read_beneficiaries(write(tmp_path, BANK | secret, PERSON | {"row_ref": "r2", "gender": "Zebra"}))
    text = str(caught.value) + str([problem.value for problem in caught.value.problems])
    for value in ("Ann", "4000111122223333", "DE1234", "Elm St", "Zebra"):
        assert value not in text


def test_a_row_does_not_show_personal_values_when_printed(tmp_path: Path) -> None:
    shown = repr(read_one(tmp_path, PERSON))
    for value in ("DE02120300000000202051", "Zoë", "Ring", "November"):
        assert value not in shown


def test_a_sheet_without_rows_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("row_ref,route,amount\n")
    with pytest.raises(InvalidSheet, match="no rows under its header"):
        read_beneficiaries(path)


@pytest.mark.parametrize(("row", "column"), [(BANK, "amount"), (PERSON, "pay_amount"), (DEST, "receive_amount")])
def test_the_meaning_of_an_amount_is_its_number(tmp_path: Path, row: dict[str, str], column: str) -> None:
    texts = ("100", "100.00", "100.0", "+100")
    meanings = [read_one(tmp_path, row | {column: text}).bound_content for text in texts]
    assert all(meaning == meanings[0] for meaning in meanings)
    assert meanings[0]["fields"][column] == "100"
    assert read_one(tmp_path, row | {column: "100.01"}).bound_content != meanings[0]


def test_the_meaning_does_not_depend_on_line_order_or_leave_to_repeat(tmp_path: Path) -> None:
    first = PERSON | {"field.a": "1", "field.b": "2"}
    second = dict(reversed(first.items())) | {"duplicate_ok": "two invoices", "row_ref": "r2"}
    one, two = read_beneficiaries(write(tmp_path, first, second))
    assert one.bound_content == two.bound_content
    assert two.duplicate_ok == "two invoices"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *((column, "77") for column in ("description", "purpose_code", "account_no", "pay_amount", "full_name")),
        ("field.swift", "SOGEDEFF"),
    ],
)
def test_the_meaning_covers_all_that_is_sent(tmp_path: Path, column: str, value: str) -> None:
    changed = read_one(tmp_path, PERSON | {column: value})
    assert changed.bound_content != read_one(tmp_path, PERSON).bound_content


def test_a_payee_is_the_same_however_the_account_is_spaced(tmp_path: Path) -> None:
    spaced = read_one(tmp_path, PERSON | {"account_no": "de02 1203-0000 0000 2020 51"})
    assert spaced.payee == read_one(tmp_path, PERSON).payee == read_one(tmp_path, COMPANY).payee
    assert read_one(tmp_path, BANK).payee != read_one(tmp_path, BANK | {"country": "PH"}).payee
    assert read_one(tmp_path, BANK).payee != read_one(tmp_path, WALLET).payee


def test_the_sample_shows_both_routes_and_stays_small() -> None:
    rows = read_beneficiaries(data.path("beneficiaries.csv"))
    assert len(rows) == 12
    assert {row.route for row in rows} == {Route.DIRECT, Route.QUOTED}
    assert {row.fields["country"] for row in rows if row.route is Route.DIRECT} == {"ID", "BR", "VN", "IN", "PH"}
    assert {row.currency for row in rows} <= {"USDT", "USDT_TRC20"}
    assert sum(row.amount or row.receive_amount or 0 for row in rows) < 20_000
    # These endings make the sandbox fail a payout on purpose.
    assert not [row.row_ref for row in rows if re.search(r"(0044|0088|0022|0012)\|", row.payee)]


def test_the_sandbox_reaches_every_payee_of_the_sample() -> None:
    for row in read_beneficiaries(data.path("beneficiaries.csv")):
        sent = row.fields
        if row.route is Route.DIRECT:
            channel = CHANNELS[sent["country"]]
            assert channel.currency == row.receive_currency
            assert sent.get("bank_code") in channel.banks or sent.get("wallet_code") in channel.wallets
        else:
            route = find_route(sent["beneficiary_country"], row.receive_currency)
            assert route is not None
            assert route.reaches(sent["beneficiary_bank_id"], sent["clear_network"])
            assert BANK_FIELDS.get(sent["clear_network"], {}).keys() <= sent.get("beneficiaryFields", {}).keys()


def test_the_readme_names_every_column() -> None:
    from treasury.sheets import balances_sheet, beneficiaries, card_users_sheet

    text = data.path("README.md").read_text()
    for layout in (beneficiaries.LAYOUT, card_users_sheet.LAYOUT, balances_sheet.LAYOUT):
        assert [column for column in layout.known if f"`{column}`" not in text] == []


def test_the_readme_names_every_column_of_the_results() -> None:
    from treasury.reports.results import COLUMNS

    text = data.path("README.md").read_text().partition("## results.csv")[2]
    assert [column for column in COLUMNS if f"`{column}`" not in text] == []


def test_a_sample_that_is_not_there_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"no sample called salaries\.csv"):
        data.path("salaries.csv")


@pytest.mark.parametrize("zero", ["0", "0.00"])
def test_a_zero_of_the_amount_that_a_mode_does_not_require_is_none(tmp_path: Path, zero: str) -> None:
    assert read_one(tmp_path, PERSON | {"receive_amount": zero}).fields == read_one(tmp_path, PERSON).fields
    bounded = DEST | {"max_pay_amount": "120"}
    row = read_one(tmp_path, bounded | {"pay_amount": zero})
    assert row.fields == read_one(tmp_path, bounded).fields
    assert (row.amount, row.max_pay_amount) == (None, Decimal(120))
    assert set(problems(tmp_path, PERSON | {"pay_amount": zero})) == {"pay_amount"}
    assert set(problems(tmp_path, DEST | {"receive_amount": zero})) == {"receive_amount"}
    assert "receive_amount" in problems(tmp_path, PERSON | {"receive_amount": "-0.01"})
