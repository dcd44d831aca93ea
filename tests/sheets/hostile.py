"""Files that must be refused, each with the place and the code of what is said."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.sheets import valid_numbers as valid
from tests.sheets.books import (
    BANK,
    FORMATS,
    MAIN,
    PERSON,
    STRUCK,
    Raw,
    csv_text,
    formula,
    number,
    parts,
    save,
    sheet_xml,
    styled,
    table,
    workbook,
    write,
)
from tests.sheets.looks import unseen_files
from tests.sheets.striking_rules import HIDDEN_BELOW, End


@dataclass(frozen=True)
class Hostile:
    """A file, and what is said about it."""

    name: str
    make: Callable[[Path], Path]
    ends: frozenset[End]
    sheet: str | None = None


def case(name: str, make: Callable[[Path], Path], *ends: End, sheet: str | None = None) -> Hostile:
    return Hostile(name, make, frozenset(ends), sheet)


def cell(base: dict[str, str], column: str, text: str, code: str, *, xlsx: bool = False) -> Hostile:
    """One wrong text in the second of two rows, as CSV or XLSX."""
    rows = [base, base | {"row_ref": "r2", column: text}]
    kind = "xlsx" if xlsx else "csv"
    place = (3, column, code)
    if xlsx:
        return case(f"{kind} {column}={text!r} {code}", lambda folder: workbook(folder, table(rows)), place)
    return case(f"{kind} {column}={text!r} {code}", lambda folder: write(folder, csv_text(table(rows))), place)


def raw(base: dict[str, str], column: str, value: Raw, code: str, name: str) -> Hostile:
    """One wrong cell of a workbook."""
    rows: list[dict[str, Any]] = [base, {**base, "row_ref": "r2", column: value}]
    return case(f"{name} in {column}", lambda folder: workbook(folder, table(rows)), (3, column, code))


def put(text: str, what: str) -> str:
    """A character in the middle of a text."""
    return text[:4] + what + text[4:]


UNSEEN = "\u200b\u200e\u200f\u202e\u2060\u2066\ufeff\u00ad\u061c\u3164"
SPACES = "\u00a0\u2007\u202f\u3000"
ZEROS = "\u0660\u06f0\u0966\uff10\u0e50"
ERRORS = ("#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NV", "Err:502")


def characters() -> Iterator[Hostile]:
    for unseen in UNSEEN:
        for column in ("account_no", "account_name", "remark", "email", "bank_code"):
            yield cell(BANK, column, put(BANK[column], unseen), "hidden_character", xlsx=column == "remark")
        yield cell(PERSON, "address", put(PERSON["address"], unseen), "hidden_character")
    for joiner in "\u200c\u200d":
        yield cell(BANK, "account_no", put(BANK["account_no"], joiner), "hidden_character")
        yield cell(BANK, "account_name", put(BANK["account_name"], joiner), "hidden_character")
    for space in SPACES:
        for column in ("account_no", "phone"):
            yield cell(BANK, column, put(BANK[column], space), "no_break_space")
        yield cell(PERSON, "field.swift", put(PERSON["field.swift"], space), "no_break_space", xlsx=True)
    for zero in ZEROS:
        for column in ("account_no", "phone", "amount"):
            yield cell(BANK, column, BANK[column].replace("0", zero), "other_digits")
        yield cell(PERSON, "field.swift", f"BYLADEM1{zero}01", "other_digits")
    for text in ("АB481926357", "4819Ο6357", "ＡＢ12345678", "４81926357A"):
        yield cell(BANK, "account_no", text, "other_digits" if "４" in text else "look_alike")
    yield cell(PERSON, "field.swift", "ВYLADEM1001", "look_alike")
    for column, text in (("account_no", "O481926357"), ("account_no", "04819o6357"), ("phone", "62812OOOO0999")):
        yield cell(BANK, column, text, "letter_o")
    yield cell(BANK, "bank_code", "1OOO120", "letter_o")
    yield cell(PERSON, "beneficiary_bank_id", "2OO08O0", "letter_o")
    for column in ("account_no", "phone", "bank_code"):
        yield cell(BANK, column, "481926357.0", "taken_for_a_number")
    yield cell(PERSON, "beneficiary_bank_id", "2000800.00", "taken_for_a_number", xlsx=True)


def damages() -> Iterator[Hostile]:
    for text in ERRORS:
        for column in ("account_no", "amount", "account_name"):
            yield cell(BANK, column, text, "error_cell", xlsx=column == "account_name")
    for text in ("####", "########"):
        for column in ("account_no", "amount", "remark"):
            yield cell(BANK, column, text, "too_narrow", xlsx=column == "remark")
    for text in ('="0481926357"', "=A1", "=1+1", '=cmd|"/c calc"!A1'):
        for column in ("account_no", "remark"):
            yield cell(BANK, column, text, "formula")
    for text in ("4.81926E+11", "4,81926E+11", "5E+15"):
        for column in ("account_no", "phone"):
            yield cell(BANK, column, text, "digits_lost")
    yield cell(BANK, "account_no", "'0481926357", "apostrophe")
    for text in ("a\nb", "a\tb", "a\x1bb", "a\x7fb", "a\x85b", "a\u2028b"):
        yield cell(BANK, "remark", text, "control_character")


def checks() -> Iterator[Hostile]:
    for iban in (each for each in valid.IBANS[::2] if each[:2] != "XK"):  # no country of ISO 3166
        wrong = iban[:-1] + ("1" if iban[-1] != "1" else "2")
        yield cell(PERSON | {"beneficiary_country": iban[:2], "account_no": iban}, "account_no", wrong, "check_failed")
    yield cell(PERSON, "account_no", "DE021203000000002020", "check_failed")
    yield cell(PERSON, "account_no", "DE0212030000000020205111", "check_failed")
    yield cell(PERSON, "account_no", "de02 1203 0000 0000 2020 15", "check_failed")
    for bic in ("BYLADEM", "BYLADEM10", "BYLAXXM1001", "1234567", "BYLADEM1001X"):
        yield cell(PERSON, "field.swift", bic, "check_failed")
    american = PERSON | {"beneficiary_country": "US", "receive_currency": "USD", "account_no": "889104526337"}
    american = {name: value for name, value in american.items() if name != "field.swift"}
    for routing in ("021000022", "21000021", "0210000210", "120000021"):
        yield cell(american | {"field.routing_number": "021000021"}, "field.routing_number", routing, "check_failed")
    mexican = american | {"beneficiary_country": "MX", "receive_currency": "MXN", "account_no": valid.CLABES[0]}
    yield cell(mexican, "account_no", "032180000118359718", "check_failed")
    argentine = american | {"beneficiary_country": "AR", "receive_currency": "ARS", "account_no": valid.CBUS[0]}
    yield cell(argentine, "account_no", "2850590940090418135202", "check_failed")
    pix = BANK | {"payout_method": "wallet_transfer", "wallet_code": "pix", "country": "BR", "settle_currency": "BRL"}
    pix = pix | {"bank_code": "", "account_type": "CPF", "account_no": "39053344705", "phone": "11900003456"}
    pix = pix | {"document_type": "CPF", "document_id": "39053344705"}
    for cpf in ("39053344706", "3905334470", "390.533.447-50", "00000000000"):
        yield cell(pix, "account_no", cpf, "check_failed")
        yield cell(pix, "document_id", cpf, "check_failed")
    company = pix | {"account_type": "CNPJ", "account_no": "16727230000197"}
    for cnpj in ("16727230000198", "1672723000019"):
        yield cell(company, "account_no", cnpj, "check_failed")
    yield cell(
        pix | {"account_type": "EMAIL", "account_no": "j@example.com"}, "account_no", "j@example", "check_failed"
    )
    yield cell(pix | {"account_type": "PHONE", "account_no": "11900003456"}, "account_no", "1190", "check_failed")
    indian = BANK | {"country": "IN", "settle_currency": "INR", "bank_code": "bank_card", "phone": "919000005678"}
    indian = indian | {"account_no": "50100273645519", "document_type": "IFSC", "document_id": "HDFC0000123"}
    for ifsc in ("HDFCO000123", "HDFC000012", "HDF00000123", "HDFC00001234"):
        yield cell(indian, "document_id", ifsc, "check_failed")
    yield cell(
        indian | {"document_type": "PAN", "document_id": valid.PANS[0]}, "document_id", "ACUPA0000R", "check_failed"
    )
    known = BANK | {"document_type": "NIK", "document_id": valid.NIKS[0]}
    yield cell(known, "document_id", "9971011708450001", "check_failed")
    yield cell(
        BANK | {"document_type": "NPWP", "document_id": valid.NPWPS[1]}, "document_id", "123456789", "check_failed"
    )
    for phone in ("12", "1234567890123456789012", "budi", "6281200009 / 6281200008", "+0 0"):
        yield cell(BANK, "phone", phone, "check_failed")
    for email in (
        "a@x; b@x",
        "a@x.com,b@y.com",
        "a@x.com b@y.com",
        "budi",
        "budi@",
        "@x.com",
        "a@x",
        "a@x..com",
        "a @x.com",
    ):
        yield cell(BANK, "email", email, "check_failed")
    for born in ("2999-01-01", "2100-12-31"):
        yield cell(PERSON, "date_of_birth", born, "in_the_future")
    nameless = {name: value for name, value in PERSON.items() if name != "full_name"}
    yield case("no name", lambda at: write(at, csv_text(table([nameless]))), (2, "full_name", "name_missing"))


AMOUNTS = (
    "1,250.00",
    "1.250,00",
    "1 250.00",
    "1'250",
    "-5",
    "0",
    "0.00",
    "1e3",
    "5 USD",
    "$5",
    "twelve",
    "1.2.3",
    "1,250",
)


def amounts() -> Iterator[Hostile]:
    for text in AMOUNTS:
        yield cell(BANK, "amount", text, "not_valid")
    for text in ("1.250", "12.500", "999.999", "1,250"):
        rows = [BANK, BANK | {"row_ref": "r2", "amount": text}]
        yield case(
            f"semicolons and {text}",
            lambda at, rows=rows: write(at, csv_text(table(rows), ";")),  # type: ignore[misc]
            (3, "amount", "unclear_amount"),
        )
    rows = [BANK | {"amount": "1.250"}, BANK | {"row_ref": "r2", "amount": "980,50"}]
    unclear = (2, "amount", "unclear_amount")
    yield case("tabs, a decimal comma below", lambda at: write(at, csv_text(table(rows), "\t")), unclear)
    both = (unclear, (3, "amount", "not_valid"))
    yield case("commas, a decimal comma below", lambda at: write(at, csv_text(table(rows))), *both)
    yield case("a workbook with a decimal comma", lambda at: workbook(at, table(rows)), *both)
    texts = [BANK | {"amount": formula("1.250", "str")}, rows[1]]
    yield case("a formula's text, a decimal comma below", lambda at: workbook(at, table(texts)), *both)


IDENTIFIERS = ("account_no", "bank_code", "phone")


def cells_of_workbooks() -> Iterator[Hostile]:
    for column in IDENTIFIERS:
        for style in (0, 1, 2, 4, 5, 6, 10):
            name = f"number shown as {FORMATS.get(style)} ({style})"
            yield raw(BANK, column, number("481926357", style), "leading_zero_lost", name)
        yield raw(BANK, column, number("45000", 9), "taken_for_a_date", "a date")
        yield raw(BANK, column, formula("0481926357", "str"), "formula", "a text formula")
        yield raw(BANK, column, formula("481926357"), "formula", "a number formula")
    for column in ("account_no", "beneficiary_bank_id", "purpose_code", "field.swift"):
        yield raw(PERSON, column, number("12"), "leading_zero_lost", "a number")
    for column in ("amount", "account_name", "account_no"):
        yield raw(BANK, column, Raw('<c r="{at}"><f>A1</f></c>'), "formula", "never calculated")
        yield raw(BANK, column, Raw('<c r="{at}" t="e"><v>#N/A</v></c>'), "error_cell", "an error")
        yield raw(BANK, column, formula("#REF!", "e"), "error_cell", "a formula's error")
        yield raw(BANK, column, Raw('<c r="{at}" t="b"><v>1</v></c>'), "wrong_type", "a boolean")
        yield raw(BANK, column, styled("12.50", STRUCK), "struck_out", "struck out")
    for style, value in ((2, "1250.555"), (3, "0.125"), (4, "12.5"), (10, "1250.4"), (14, "9.99"), (15, "1.01")):
        yield raw(BANK, "amount", number(value, style), "shown_differs", f"{value} as {FORMATS[style]}")
    for style, value in ((8, "12.5"), (11, "1250"), (12, "0.5"), (13, "1250"), (16, "1.25")):
        yield raw(BANK, "amount", number(value, style), "shown_differs", f"{value} as {FORMATS[style]}")
    yield raw(BANK, "amount", formula("1250.555", style=2), "shown_differs", "a rounded result")
    yield raw(BANK, "amount", number("45000", 9), "taken_for_a_date", "a date")
    for column in ("amount", "row_ref"):
        yield raw(BANK, column, number("5", 7), "not_shown", "a number that is not shown")
    yield raw(BANK, "account_name", styled("Budi Contoh", 7), "not_shown", "a text that is not shown")
    for value in ("1234567890123456", "0.1234567890123456", "1e400"):
        yield raw(BANK, "amount", number(value), "digits_lost", f"{value}")
    partly = Raw('<c r="{at}" t="inlineStr"><is><r><t>12</t></r><r><rPr><strike/></rPr><t>34</t></r></is></c>')
    yield raw(BANK, "remark", partly, "struck_out", "partly struck out")
    yield raw(
        BANK, "account_no", Raw('<c r="{at}" t="inlineStr"><is><t>04_x0009_81</t></is></c>'), "control_character", "tab"
    )


TWO = table([BANK, BANK | {"row_ref": "r2"}])


def hidden() -> Iterator[Hostile]:
    for attributes in ('hidden="1"', 'hidden="true"', 'ht="0" customHeight="1"'):
        yield case(
            f"row {attributes}",
            lambda at, a=attributes: workbook(at, TWO, rows={3: a}),  # type: ignore[misc]
            (3, "row", "hidden_row"),
        )
    many = table([BANK | {"row_ref": f"r{n}"} for n in range(5)])
    filtered = dict.fromkeys((3, 5), 'hidden="1"')
    ends = ((3, "row", "hidden_row"), (5, "row", "hidden_row"))
    yield case("filtered", lambda at: workbook(at, many, rows=filtered), *ends)
    yield case("hidden header", lambda at: workbook(at, TWO, rows={1: 'hidden="1"'}), (1, "row", "hidden_row"))
    for attributes in ('hidden="1"', 'hidden="true" width="9"', 'width="0"'):
        column = f'<cols><col min="3" max="3" {attributes}/></cols>'
        place = (1, "amount", "hidden_column")
        yield case(f"column {attributes}", lambda at, c=column: workbook(at, TWO, before=c), place)  # type: ignore[misc]
    cols = '<cols><col min="7" max="8" hidden="1"/></cols>'
    ends = ((1, "account_no", "hidden_column"), (1, "account_name", "hidden_column"))
    yield case("two hidden columns", lambda at: workbook(at, TWO, before=cols), *ends)
    hides = '<sheetFormatPr zeroHeight="1"/>'
    yield case("rows hidden by default", lambda at: workbook(at, TWO, before=hides), (0, "file", "hidden_row"))
    low = '<sheetFormatPr defaultRowHeight="0" customHeight="1"/>'
    tall = dict.fromkeys((1, 2), 'ht="15"')
    yield case("no height by default", lambda at: workbook(at, TWO, before=low, rows=tall), (3, "row", "hidden_row"))
    panes = '<sheetViews><sheetView topLeftCell="{}"><pane {} state="frozen"/></sheetView></sheetViews>'
    frozen = panes.format("A2", 'ySplit="1" topLeftCell="A3"')
    yield case("header above frozen panes", lambda at: workbook(at, TWO, before=frozen), (1, "row", "hidden_row"))
    left = panes.format("B1", 'xSplit="2" topLeftCell="D1"')
    place = (1, "row_ref", "hidden_column")
    yield case("column left of frozen panes", lambda at: workbook(at, TWO, before=left), place)
    narrow = '<sheetFormatPr defaultColWidth="0"/><cols><col min="3" max="200" width="9"/></cols>'
    ends = ((1, "row_ref", "hidden_column"), (1, "route", "hidden_column"))
    yield case("no width by default", lambda at: workbook(at, TWO, before=narrow), *ends)
    for name, (rules, places) in HIDDEN_BELOW.items():
        yield case(name, lambda at, r=rules: workbook(at, TWO, after=r), *places)  # type: ignore[misc]
    struck = [*TWO[:2], [styled(text, STRUCK) if text else "" for text in TWO[2]]]
    yield case("row struck out", lambda at: workbook(at, struck), (3, "row", "struck_out"))
    strings = "<si><t>r2</t></si><si><r><rPr><strike val='1'/></rPr><t>Budi Contoh</t></r></si>"
    shared = [*TWO[:2], list(TWO[2])]
    shared[2][7] = Raw('<c r="{at}" t="s"><v>1</v></c>')
    yield case(
        "shared text struck out",
        lambda at: save(at, parts({"P": sheet_xml(shared)}, strings=strings)),
        (3, "account_name", "struck_out"),
    )
    good = sheet_xml(TWO)
    for state in ("hidden", "veryHidden"):
        book = parts({"Old": good, "New": good}, {"Old": state})
        yield case(f"first sheet {state}", lambda at, b=book: save(at, b), (0, "file", "hidden_sheet"))  # type: ignore[misc]
        yield case(
            f"named sheet {state}",
            lambda at, b=book: save(at, b),  # type: ignore[misc]
            (0, "file", "hidden_sheet"),
            sheet="Old",
        )
    yield case(
        "only sheet hidden", lambda at: save(at, parts({"A": good}, {"A": "hidden"})), (0, "file", "hidden_sheet")
    )
    two = parts({"May": good, "June": good})
    yield case("two sheets", lambda at: save(at, two), (0, "file", "several_sheets"))
    yield case("no such sheet", lambda at: save(at, two), (0, "file", "no_such_sheet"), sheet="July")
    alike = parts({"May": good, "MAY ": good})
    yield case("two sheets named alike", lambda at: save(at, alike), (0, "file", "several_sheets"), sheet="may")
    yield case("a sheet of a CSV", lambda at: write(at, csv_text(TWO)), (0, "file", "no_such_sheet"), sheet="May")


def doctype(part: str) -> dict[str, str]:
    """A workbook whose part has entities, each of which is ten of the one before."""
    entities = '<!ENTITY a0 "0481926357">' + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    book = parts({"P": sheet_xml(TWO)}, strings="<si><t>x</t></si>")
    text = book[part]
    return book | {part: f"<!DOCTYPE x [{entities}]>" + text.replace("</t>", "&a11;</t>", 1)}


def broken() -> Iterator[Hostile]:
    whole = parts({"P": sheet_xml(TWO)}, strings="<si><t>x</t></si>")
    place = (0, "file", "not_a_workbook")
    for part in (name for name in whole if not name.endswith(".rels")):
        yield case(f"entities in {part}", lambda at, p=part: save(at, doctype(p)), place)  # type: ignore[misc]
        damaged = whole | {part: whole[part][: len(whole[part]) // 2]}
        yield case(f"half of {part}", lambda at, d=damaged: save(at, d), place)  # type: ignore[misc]
    for part in ("_rels/.rels", "xl/workbook.xml", "xl/_rels/workbook.xml.rels", "xl/worksheets/sheet1.xml"):
        less = {name: text for name, text in whole.items() if name != part}
        yield case(f"without {part}", lambda at, d=less: save(at, d), place)  # type: ignore[misc]
    first = "xl/worksheets/sheet1.xml"
    for name, old, new in (
        ("rows in disorder", 'r="3"', 'r="2"'),
        ("a cell of another row", 'r="B2"', 'r="B3"'),
        ("cells in disorder", 'r="B2"', 'r="A2"'),
        ("row a million", 'r="3"', 'r="99999999"'),
        ("no row number", 'r="3"', 'r="x"'),
        ("a number that is none", '<c r="A2" t="inlineStr"', '<c r="A2" t="n"><v>inf</v></c><c r="AA2" t="inlineStr"'),
        ("a text that is not there", '<c r="A2" t="inlineStr"', '<c r="A2" t="s"><v>9</v></c><c r="AA2" t="inlineStr"'),
    ):
        changed = whole | {first: whole[first].replace(old, new)}
        yield case(name, lambda at, d=changed: save(at, d), place)  # type: ignore[misc]
    deep = whole | {first: whole[first].replace("<sheetData>", "<a>" * 200_000 + "<sheetData>")}
    yield case("deep", lambda at: save(at, deep), place)
    yield case("begin of a zip", lambda at: write(at, b"PK\x03\x04 not a workbook", "a.xlsx"), place)
    yield case("a zip of something else", lambda at: save(at, {"a.txt": "x"}), place)
    other = (0, "file", "other_format")
    ods = {"mimetype": "application/vnd.oasis.opendocument.spreadsheet", "content.xml": "<x/>"}
    yield case("ods", lambda at: save(at, ods, "sheet.ods"), other)
    yield case("xlsb", lambda at: save(at, {"xl/workbook.bin": "x"}, "sheet.xlsb"), other)
    yield case("numbers", lambda at: save(at, {"Index/Document.iwa": "x"}, "sheet.numbers"), other)
    yield case("xls", lambda at: write(at, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "sheet.xls"), other)


def sized() -> Iterator[Hostile]:
    cells = "<c/>" * 100_000
    rows = "".join(f'<row r="{n}">{cells}</row>' for n in range(1, 22))
    crowded = {"P": f"<worksheet xmlns={MAIN}><sheetData>{rows}</sheetData></worksheet>"}
    yield case("2 million cells", lambda at: save(at, parts(crowded)), (0, "file", "too_many_cells"))
    long = "".join(f'<row r="{n}"><c r="A{n}"><v>1</v></c></row>' for n in range(1, 200_100))
    tall = {"P": f"<worksheet xmlns={MAIN}><sheetData>{long}</sheetData></worksheet>"}
    yield case("200,000 rows", lambda at: save(at, parts(tall)), (0, "file", "too_many_rows"))
    yield case(
        "200,000 lines", lambda at: write(at, csv_text(TWO) + "r,direct\n" * 200_100), (0, "file", "too_many_rows")
    )
    wide = [[*TWO[0], *(f"note {n}" for n in range(200))], *TWO[1:]]
    yield case("200 columns", lambda at: write(at, csv_text(wide)), (1, "file", "too_many_columns"))
    yield case("200 columns in a workbook", lambda at: workbook(at, wide), (1, "file", "too_many_columns"))
    yield case("600 MB", unpacks, (0, "file", "too_big"))
    garbage = {"P": f"<worksheet xmlns={MAIN}>{'<x/>' * 5_000_000}<sheetData/></worksheet>"}
    yield case("5 million elements", lambda at: save(at, parts(garbage)), (0, "file", "not_a_workbook"))
    endless = {"P": sheet_xml([["row_ref", "route"], ["r1", "x" * 3_000_000]])}
    yield case("a cell of 3 MB", lambda at: save(at, parts(endless)), (0, "file", "not_a_workbook"))
    broad = [[*TWO[0], *(f"c{n}" for n in range(16_000))], *TWO[1:]]
    yield case("16,000 columns", lambda at: write(at, csv_text(broad)), (1, "file", "too_many_columns"))
    yield case(
        "16,000 columns above", lambda at: write(at, csv_text([broad[0][20:], *TWO])), (1, "row", "row_above_header")
    )
    yield case("a line of 2 MB", lambda at: write(at, csv_text(TWO) + "," * 2_000_000), (0, "file", "too_long"))
    marks = csv_text(TWO) + '"a\n",' * 100_000
    yield case("a row of 100,000 lines", lambda at: write(at, marks), (4, "file", "not_csv"))
    columns = "<cols>" + '<col min="90" max="90" hidden="1"/>' * 100_000 + "</cols>"
    yield case("100,000 hidden columns", lambda at: workbook(at, TWO, before=columns), (0, "file", "not_a_workbook"))
    yield case("a file of 101 MB", sparse, (0, "file", "too_big"))
    bad = csv_text(TWO[:1]) + "".join(f"r{n},direct\n" for n in range(20_000))
    yield case("20,000 wrong rows", lambda at: write(at, bad), (0, "many", "many"))


def unpacks(folder: Path) -> Path:
    """A small file that unpacks to 600 MB."""
    import zipfile

    path = save(folder, parts({"P": sheet_xml(TWO)}))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as book, book.open("xl/x.xml", "w") as part:
        for _ in range(600):
            part.write(bytes(1_000_000))
    return path


def sparse(folder: Path) -> Path:
    path = folder / "sheet.csv"
    with path.open("wb") as file:
        file.truncate(101_000_000)
    return path


def files() -> Iterator[Hostile]:
    plain = csv_text(TWO)
    for name, content in (("nothing", b""), ("blanks", b" \n\r\n"), ("commas", b",,\n,\n")):
        yield case(name, lambda at, c=content: write(at, c), (0, "file", "empty"))  # type: ignore[misc]
    yield case("header only", lambda at: write(at, csv_text(TWO[:1])), (0, "file", "no_rows"))
    yield case("no header", lambda at: write(at, csv_text(TWO[1:])), (1, "file", "no_header"))
    for name, content, row in (
        ("latin-1", plain.replace("Budi", "Zoë").encode("latin-1"), 2),
        ("utf-16 without a mark", plain.encode("utf-16-le"), 0),
        ("half of utf-16", plain.encode("utf-16")[:-1], 0),
        ("utf-32", plain.encode("utf-32-le"), 0),
        ("gzip", b"\x1f\x8b\x08\x00\x00\x00", 0),
        ("png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", 0),
    ):
        yield case(name, lambda at, c=content: write(at, c), (row, "file", "wrong_encoding"))  # type: ignore[misc]
    yield case(
        "html", lambda at: write(at, "<html><table><tr><td>1</td></tr></table>", "s.xls"), (1, "file", "no_header")
    )
    open_quote = plain.replace(",November\n", ',"November\n', 1)
    yield case("open quotation mark", lambda at: write(at, open_quote), (2, "file", "not_csv"))
    for column, code in (("amout", "unknown_column"), ("iban", "unknown_column"), ("amount", "column_twice")):
        lines = [[*TWO[0], column], *([*line, "x"] for line in TWO[1:])]
        yield case(f"column {column} {code}", lambda at, t=lines: write(at, csv_text(t)), (1, column, code))  # type: ignore[misc]
    unseen = [[TWO[0][0], TWO[0][1] + "\u200b", *TWO[0][2:]], *TWO[1:]]
    ends = ((1, "route\ufffd", "hidden_character"), (1, "route", "column_missing"))
    yield case("unseen in a name", lambda at: write(at, csv_text(unseen)), *ends)
    nameless = [[*TWO[0], "", "note"], *([*line, "x", ""] for line in TWO[1:])]
    yield case("a column without a name", lambda at: write(at, csv_text(nameless)), (1, "", "column_without_name"))
    longer = [*TWO[:2], [*TWO[2], "x"]]
    yield case("more cells than columns", lambda at: write(at, csv_text(longer)), (3, "row", "too_many_cells_in_row"))
    twice = [*TWO[:2], TWO[1]]
    yield case("a row twice", lambda at: write(at, csv_text(twice)), (3, "row_ref", "twice"))
    above = [TWO[1], TWO[0], TWO[2]]
    yield case("a row above the header", lambda at: write(at, csv_text(above)), (1, "row", "row_above_header"))
    for column in ("row_ref", "account_no", "amount", "email", "phone", "country"):
        rows = [BANK, BANK | {"row_ref": "r2", column: ""}]
        yield case(
            f"no {column}",
            lambda at, r=rows: write(at, csv_text(table(r))),  # type: ignore[misc]
            (3, column, "required"),
        )
    yield cell(BANK, "account_name", "Budi", "too_short")
    yield cell(BANK, "remark", "r" * 41, "too_long")
    yield cell(BANK, "route", "swift", "not_one_of")
    yield cell(PERSON, "purpose_code", "1", "leading_zero_lost")


def all_hostile() -> list[Hostile]:
    groups = (characters, damages, checks, amounts, cells_of_workbooks, hidden, broken, sized, files)
    return [*(each for group in groups for each in group()), *(case(*each) for each in unseen_files())]
