"""Templates: what stands in them, that they are refused as they are, and that they are paid once they are filled in."""

import csv
import zipfile
from collections.abc import Callable, Sized
from datetime import UTC
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from openpyxl.utils import get_column_letter

from treasury.errors import InputError, InvalidSheet
from treasury.orders.rows import Route
from treasury.provider.reach import DIRECT
from treasury.sandbox.routes import CHANNELS, PURPOSES
from treasury.sheets import (
    balances_sheet,
    beneficiaries,
    card_users_sheet,
    deposit_addresses_sheet,
    invoices,
    qr_codes,
    statement,
    withdrawals,
)
from treasury.sheets.balances_sheet import read_balances
from treasury.sheets.beneficiaries import read_beneficiaries
from treasury.sheets.card_users_sheet import read_card_users
from treasury.sheets.cells import CONTROL, HELPER_SHEETS, LISTS
from treasury.sheets.control import MAX_ROWS
from treasury.sheets.deposit_addresses_sheet import read_deposit_addresses
from treasury.sheets.invoices import read_invoices
from treasury.sheets.qr_codes import read_qr_codes
from treasury.sheets.statement import read_statement
from treasury.sheets.template_files import Need, Template, write_template
from treasury.sheets.templates import KINDS, template_of
from treasury.sheets.withdrawals import read_withdrawals

READERS: dict[str, Callable[[Path], Sized]] = {
    "pay": read_beneficiaries,
    "withdraw": read_withdrawals,
    "scan-pay": read_qr_codes,
    "collect": read_invoices,
    "addresses": read_deposit_addresses,
    "provision": read_card_users,
    "balances": lambda path: read_balances(path)[0],
    "statement": lambda path: read_statement(path, UTC).entries,
}
LAYOUTS = {
    "pay": beneficiaries.LAYOUT,
    "withdraw": withdrawals.LAYOUT,
    "scan-pay": qr_codes.LAYOUT,
    "collect": invoices.LAYOUT,
    "addresses": deposit_addresses_sheet.LAYOUT,
    "provision": card_users_sheet.LAYOUT,
    "balances": balances_sheet.LAYOUT,
    "statement": statement.LAYOUT,
}
COUNTRIES = (None, *DIRECT, "DE", "TH", "TW", "US", "GB")


def written(folder: Path, kind: str = "pay", country: str | None = None, suffix: str = "xlsx") -> Path:
    path = folder / f"template.{suffix}"
    write_template(template_of(kind, country), path)
    return path


def filled(path: Path, replacing: str = "") -> Path:
    """The template with its example values made somebody's own, saved as a program without formulas does."""
    if path.suffix == ".csv":
        path.write_text(path.read_text().replace("EXAMPLE-", replacing))
        return path
    book = openpyxl.load_workbook(path)
    for row in book.worksheets[0].iter_rows(min_row=2):
        for cell in row:
            if isinstance(cell.value, str):
                cell.value = cell.value.replace("EXAMPLE-", replacing)
    book.save(path)
    return path


def problems(path: Path, kind: str = "pay") -> list[tuple[str, str]]:
    with pytest.raises(InvalidSheet) as caught:
        READERS[kind](path)
    return [(problem.column, problem.rule) for problem in caught.value.problems]


@pytest.mark.parametrize("suffix", ["xlsx", "csv"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_template_is_refused_until_its_examples_are_replaced(tmp_path: Path, kind: str, suffix: str) -> None:
    found = problems(written(tmp_path, kind, suffix=suffix), kind)
    assert {rule for _, rule in found} == {"replace the example row"}
    assert [column for column, _ in found].count(LAYOUTS[kind].key) == 2
    assert len(READERS[kind](filled(written(tmp_path, kind, suffix=suffix)))) == 2


@pytest.mark.parametrize("suffix", ["xlsx", "csv"])
@pytest.mark.parametrize("country", COUNTRIES)
def test_the_examples_of_every_country_are_good_rows(tmp_path: Path, country: str | None, suffix: str) -> None:
    rows = read_beneficiaries(filled(written(tmp_path, "pay", country, suffix)))
    assert [row.row_ref for row in rows] == ["1", "2"]
    if country is not None:
        assert {row.country for row in rows} == {country}
        assert {row.route for row in rows} == {Route.DIRECT if country in DIRECT else Route.QUOTED}


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_country_every_column_is_there_and_each_has_a_note(kind: str) -> None:
    columns = template_of(kind).columns
    assert {column.name for column in columns} >= set(LAYOUTS[kind].known) - {"replaces"}
    assert all(LAYOUTS[kind].allows(column.name) for column in columns)
    assert all(column.note.strip().endswith((".", "counts.")) for column in columns)
    required = {LAYOUTS[kind].key, *LAYOUTS[kind].required}
    assert required <= {column.name for column in columns if column.need is Need.YES}
    assert not any("public fact" in column.note or "document, " in column.note for column in template_of(kind).columns)


def test_a_country_has_its_route_s_columns_alone() -> None:
    def names(country: str) -> set[str]:
        return {column.name for column in template_of("pay", country).columns}

    own = set(beneficiaries.OWN) - {"replaces"}  # `remaining.csv` has it, filled in
    assert names("ID") == own | set(beneficiaries.DIRECT)
    assert names("id") == names("ID")
    assert names("VN") == names("ID") - {"wallet_code", "account_type"}
    assert names("BR") == names("ID") - {"bank_code", "bank_routing_code"}
    quoted = {*beneficiaries.QUOTE, *beneficiaries.PARTY, *beneficiaries.CONFIRMATION, beneficiaries.CEILING}
    assert names("DE") == own | quoted | {"field.swift", "field.routing_number"}


def choices(template: Template) -> dict[str, tuple[str, ...]]:
    return {column.name: column.choices for column in template.columns if column.choices}


def test_what_the_interface_lists_is_a_drop_down() -> None:
    every = choices(template_of("pay"))
    assert every["route"] == ("direct", "quoted")
    assert every["quote_mode"] == ("source", "dest")
    assert every["account_type"] == ("PHONE", "EMAIL", "CPF", "CNPJ", "PERSONAL", "ENTERPRISE")
    assert every["gender"] == ("male", "female")
    assert every["beneficiary_relationship"] == ("own", "third")
    assert every["payout_method"] == ("bank_transfer", "wallet_transfer")
    assert {choice.partition(": ")[0] for choice in every["purpose_code"]} == set(PURPOSES)
    assert choices(template_of("pay", "BR"))["payout_method"] == ("wallet_transfer",)
    assert choices(template_of("provision")) == {"level_name": ("LEVEL-1", "LEVEL-2"), "document_type": ("1", "2")}


def chosen(folder: Path, **cells: str) -> Path:
    """The filled template with these cells in its last row, a quoted payment to Germany."""
    path = filled(written(folder))
    book = openpyxl.load_workbook(path)
    sheet = book.worksheets[0]
    for column in sheet.iter_cols():
        if column[0].value in cells:
            column[2].value = cells[str(column[0].value)]
    book.save(path)
    return path


def test_a_code_is_chosen_with_its_name_and_sent_without_it(tmp_path: Path) -> None:
    every = choices(template_of("pay"))
    assert "DE: Germany" in every["beneficiary_country"]
    assert "ID: Indonesia" in every["country"]
    picked = {
        "beneficiary_country": "DE: Germany",
        "nationality": "VN: Vietnam",
        "purpose_code": "30: salary, commission",
    }
    assert set(picked.items()) <= {(name, choice) for name, some in every.items() for choice in some}
    _, quoted = read_beneficiaries(chosen(tmp_path, **picked, beneficiary_bank_id="2000800: Musterbank"))
    party = quoted.fields["individual_beneficiary"]
    assert (quoted.country, quoted.bank, quoted.purpose_code) == ("DE", "2000800", "30")
    assert party["nationality"] == "VN"


@pytest.mark.parametrize(
    ("column", "cell", "said"),
    [
        ("beneficiary_country", "DE: Austria", "DE is Germany: write the code that is meant"),
        ("purpose_code", "30: rent", "30 is salary, commission: write the code that is meant"),
    ],
)
def test_a_code_beside_the_name_of_another_one_is_refused(tmp_path: Path, column: str, cell: str, said: str) -> None:
    [problem] = problems(chosen(tmp_path, **{column: cell}))
    assert problem[0] == column
    assert problem[1].startswith(said)


def test_the_known_banks_and_wallets_are_those_that_the_public_facts_list() -> None:
    """Against the sandbox, which has lists of its own."""
    for country, reach in DIRECT.items():
        channel = CHANNELS[country]
        assert (reach.currency, set(reach.banks), set(reach.wallets)) == (
            *(channel.currency, set(channel.banks), set(channel.wallets)),
        )


@pytest.fixture
def book(tmp_path: Path) -> Any:
    return openpyxl.load_workbook(written(tmp_path, "pay", "ID"))


def test_the_workbook_has_one_visible_table_and_helpers_of_reserved_names(book: Any) -> None:
    assert book.sheetnames == ["pay", LISTS, CONTROL]
    assert set(book.sheetnames[1:]) <= HELPER_SHEETS
    assert book[LISTS].sheet_state == "hidden"


def test_identifiers_are_text_in_every_row_and_a_note_stands_on_each_header(book: Any) -> None:
    sheet = book["pay"]
    for header in sheet[1]:
        assert header.comment.text, header.value
        [look] = [each for each in sheet.column_dimensions.values() if each.min <= header.column <= each.max]
        assert look.number_format == ("General" if header.value == "amount" else "@"), header.value
    bold = {header.value for header in sheet[1] if header.font.bold}
    assert bold == {column.name for column in template_of("pay", "ID").columns if column.need is not Need.NO}
    assert "Required." in sheet["C1"].comment.text
    assert (sheet["C2"].value, sheet["C2"].data_type) == (1250, "n")


def test_drop_downs_reach_5000_rows_and_long_ones_stand_in_a_list(book: Any) -> None:
    found = {str(each.sqref): each for each in book["pay"].data_validations.dataValidation}
    names = [column.name for column in template_of("pay", "ID").columns]
    assert len(found) == len(choices(template_of("pay", "ID")))
    assert all(place.endswith(str(MAX_ROWS + 1)) for place in found)
    letter = get_column_letter(names.index("bank_code") + 1)
    banks = found[f"{letter}2:{letter}{MAX_ROWS + 1}"]
    assert (banks.formula1, banks.errorStyle) == (f"{LISTS}!$A$1:$A$106", "warning")
    assert book[LISTS]["A1"].value == "1000120"
    method = get_column_letter(names.index("payout_method") + 1)
    assert found[f"{method}2:{method}{MAX_ROWS + 1}"].errorStyle in (None, "stop")


def test_a_csv_template_is_its_header_and_two_rows(tmp_path: Path) -> None:
    with written(tmp_path, suffix="csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == [column.name for column in template_of("pay").columns]
    assert [row[0] for row in rows] == ["EXAMPLE-1", "EXAMPLE-2"]


def test_the_same_template_is_the_same_bytes(tmp_path: Path) -> None:
    assert written(tmp_path).read_bytes() == written(tmp_path).read_bytes()


@pytest.mark.parametrize(
    ("kind", "country", "said"),
    [
        ("payments", None, "pay, withdraw"),
        ("provision", "ID", "leave --country out"),
        ("pay", "Indonesia", "two letters"),
        ("pay", "XX", "two letters"),
    ],
)
def test_a_template_that_there_is_not_is_refused(kind: str, country: str | None, said: str) -> None:
    with pytest.raises(InputError, match=said):
        template_of(kind, country)


def test_a_template_of_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.xlsx or \.csv"):
        written(tmp_path, suffix="ods")


# --- control -------------------------------------------------------------------------------------------------------


def with_control(folder: Path, **cells: Any) -> Path:
    """A filled template whose control holds these values in place of formulas."""
    path = filled(written(folder, "pay", "ID"))
    book = openpyxl.load_workbook(path)
    for place, value in cells.items():
        book[CONTROL][place] = value
    book.save(path)
    return path


def test_a_control_that_agrees_says_nothing(tmp_path: Path) -> None:
    path = with_control(tmp_path, B5=2, C5="2", B6=1560.5000000000002, C6="1560.50", B7=0, A11="EUR", C11=0)
    assert len(read_beneficiaries(path)) == 2


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"B5": 3}, ("_control: rows", "counts 3 rows, and the sheet has 2")),
        ({"C5": 1}, ("_control: rows", "expects 1 rows, and the sheet has 2")),
        ({"B6": 1560.51}, ("_control: USDT_TRC20", "counts 1560.51 USDT_TRC20, and the sheet has 1560.5")),
        ({"C6": "1,560.50"}, ("_control: USDT_TRC20", "expects '1,560.50', which is not a number")),
        ({"A11": "EUR", "C11": "5"}, ("_control: EUR", "expects 5 EUR, and the sheet has 0")),
    ],
)
def test_a_control_that_differs_is_refused_with_both_numbers(
    tmp_path: Path, cells: dict[str, object], said: tuple[str, str]
) -> None:
    [(column, rule)] = problems(with_control(tmp_path, **cells))
    assert column == said[0]
    assert rule.startswith(said[1])


def test_the_formulas_of_a_new_template_say_what_its_examples_hold(tmp_path: Path) -> None:
    from treasury.sheets.control import read_control

    control = read_control(written(tmp_path, "pay", "ID"))
    assert control is not None
    assert {name: value for name, value in control.counted.items() if value} == {"rows": 2, "USDT_TRC20": 1560.5}
    assert control.expected == {}
    assert read_control(written(tmp_path, "balances")) is None
    assert read_control(written(tmp_path, suffix="csv")) is None


def test_a_control_that_is_damaged_is_refused_and_named(tmp_path: Path) -> None:
    path = filled(written(tmp_path, "pay", "ID"))
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    with zipfile.ZipFile(path, "w") as book:
        for name, content in parts.items():
            book.writestr(name, content if name != "xl/worksheets/sheet3.xml" else content[: len(content) // 2])
    assert problems(path) == [(CONTROL, "cannot be read: delete this sheet, or take a new template")]
