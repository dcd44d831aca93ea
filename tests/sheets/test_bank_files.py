"""Statements of banks: what is read of camt.053 and MT940, and what is refused by name."""

from dataclasses import asdict
from datetime import UTC, date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from treasury.errors import InvalidSheet
from treasury.sheets.statement import read_statement

CAMT = """<?xml version="1.0" encoding="UTF-8"?>
<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt><Stmt><Id>S1</Id>
<Bal><Tp><CdOrPrtry><Cd>OPBD</Cd></CdOrPrtry></Tp><Amt Ccy="EUR">1000.00</Amt><CdtDbtInd>CRDT</CdtDbtInd></Bal>
<Bal><Tp><CdOrPrtry><Cd>CLBD</Cd></CdOrPrtry></Tp><Amt Ccy="EUR">{closing}</Amt><CdtDbtInd>CRDT</CdtDbtInd></Bal>
<Ntry><Amt Ccy="EUR">100.50</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts><Cd>BOOK</Cd></Sts>
<BookgDt><Dt>2026-11-24</Dt></BookgDt><AcctSvcrRef>P1</AcctSvcrRef>
<Chrgs><TtlChrgsAndTaxAmt Ccy="EUR">0.50</TtlChrgsAndTaxAmt></Chrgs>
<NtryDtls><TxDtls><Refs><EndToEndId>tf-abc</EndToEndId></Refs></TxDtls></NtryDtls></Ntry>
<Ntry><Amt Ccy="EUR">30</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts>BOOK</Sts>
<BookgDt><DtTm>2026-11-24T10:00:00Z</DtTm></BookgDt>
<NtryDtls><TxDtls><Refs><EndToEndId>tf-d</EndToEndId><TxId>P2</TxId></Refs><Amt Ccy="EUR">10</Amt></TxDtls>
<TxDtls><Refs><EndToEndId>NOTPROVIDED</EndToEndId><TxId>P3</TxId></Refs><Amt Ccy="EUR">20</Amt></TxDtls>
</NtryDtls></Ntry>
<Ntry><Amt Ccy="EUR">7</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts><Cd>BOOK</Cd></Sts><ValDt><Dt>2026-11-25</Dt></ValDt></Ntry>
<Ntry><Amt Ccy="EUR">7</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts><Cd>BOOK</Cd></Sts><ValDt><Dt>2026-11-25</Dt></ValDt></Ntry>
<Ntry><Amt Ccy="EUR">5</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts><Cd>PDNG</Cd></Sts><AcctSvcrRef>P9</AcctSvcrRef></Ntry>
</Stmt></BkToCstmrStmt></Document>
"""

MT940 = """{{1:F01EXAMPLEXXXXX0000000000}}{{2:I940EXAMPLEXXXXXN}}{{4:
:20:S1
:25:EXAMPLE
:28C:1/1
:60F:C261123EUR1000,
:61:2611241124D100,50NTRFNONREF//P1
:86:166?00TRANSFER?20EREF+tf-abc?21SVWZ+rent
:61:2612310101C7,NTRFINV-7//B2
:61:261125RD3,00NTRFNONREF
:62F:C261125EUR{closing}
-}}
"""

PAGES = """:20:S\n:60F:C261123EUR1000,\n:61:261124D100,NTRFNONREF//P1\n:62M:C261124EUR900,\n-
:20:S\n:60M:C261124EUR{opening}\n:61:261124D7,NTRFNONREF//P2\n:62F:C261124EUR893,\n-\n"""
"""Two pages of a statement; with another opening of the second one, a page between them is missing."""

DETAIL = "<TxDtls><Refs><EndToEndId>{}</EndToEndId></Refs><AmtDtls>{}</AmtDtls>{}</TxDtls>"
AMOUNT = '<{0}><Amt Ccy="{2}">{1}</Amt></{0}>'


def batch(amount: str, *parts: tuple[str, str], more: str = "", mark: str = "DBIT") -> str:
    """A camt.053.001.02 file of one entry with several transactions: references, amounts in `AmtDtls`, signs."""
    said = "".join(
        DETAIL.format(
            name, AMOUNT.format("TxAmt", part.lstrip("+"), "EUR") if part else "", CREDIT if "+" in part else ""
        )
        for name, part in parts
    )
    return (
        f"<Document><BkToCstmrStmt><Stmt><Ntry><Amt Ccy='EUR'>{amount}</Amt><CdtDbtInd>{mark}</CdtDbtInd>"
        f"<Sts>BOOK</Sts><AcctSvcrRef>B1</AcctSvcrRef>{more}<NtryDtls>{said}</NtryDtls></Ntry></Stmt></BkToCstmrStmt></Document>"
    )


CREDIT = "<CdtDbtInd>CRDT</CdtDbtInd>"
CHARGES = "<Chrgs><TtlChrgsAndTaxAmt Ccy='EUR'>1.5</TtlChrgsAndTaxAmt></Chrgs>"


def entries(folder: Path, text: str, name: str = "statement.sta") -> list[tuple[Any, ...]]:
    file = folder / name
    file.write_text(text)
    read = [asdict(each) for each in read_statement(file, UTC).entries]
    names = ("order_no", "request_id", "order_type", "amount", "status", "booked_on", "fee")
    return [tuple(each[name] for name in names) for each in read]


def test_a_camt_file_is_read(tmp_path: Path) -> None:
    day, next_day, incoming = date(2026, 11, 24), date(2026, 11, 25), f"{date(2026, 11, 25)}+7EUR"
    assert entries(tmp_path, CAMT.format(closing="883.50"), "statement.xml") == [
        ("P1", "tf-abc", None, Decimal("100.50"), 99, day, Decimal("0.50")),
        ("P2", "tf-d", None, 10, 99, day, None),
        ("P3", None, None, 20, 99, day, None),
        (incoming, None, "charge", 7, 99, next_day, None),
        (f"{incoming}#2", None, "charge", 7, 99, next_day, None),
        ("P9", None, None, 5, 22, None, None),
    ]


def test_an_mt940_file_is_read(tmp_path: Path) -> None:
    assert entries(tmp_path, MT940.format(closing="909,50")) == [
        ("P1", "tf-abc", None, Decimal("100.50"), 99, date(2026, 11, 24), None),
        ("B2", "INV-7", "charge", 7, 99, date(2027, 1, 1), None),
        ("2026-11-25+3.00EUR", None, "charge", 3, 99, date(2026, 11, 25), None),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (CAMT.format(closing="883.51"), "does not add up: from 1000.00 its lines lead to 883.50 EUR, and it closes"),
        (MT940.format(closing="909,"), "does not add up: from 1000 its lines lead to 909.50 EUR"),
        ("<html></html>", "is XML without a statement"),
        ("<Document><Stmt>", "is no XML that can be read"),
        (CAMT.format(closing="883.50").replace("UTF-8", "GB2312"), "is no XML that can be read: multi-byte encodings"),
        (CAMT.format(closing="883.50").replace("UTF-8", "UTF-99"), "is no XML that can be read: unknown encoding"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><Document/>', "holds a document type"),
        (CAMT.format(closing="883.50").replace("100.50", "-100.50"), "has a negative amount, -100.50: the mark"),
        (CAMT.format(closing="883.50").replace("100.50", "1e2"), "has an amount that is none: '1e2'"),
        (CAMT.format(closing="883.50").replace("DBIT", "X", 1), "has an amount without CRDT or DBIT"),
        (CAMT.format(closing="883.50").replace("P1<", "P" * 71 + "<"), "has a reference of 71 characters, PPPPPPPP"),
        (CAMT.format(closing="883.50").replace("tf-abc", "t" * 300), "has a reference of 300 characters, tttt"),
        (CAMT.format(closing="883.50").replace('"EUR">100.50', f'"{"E" * 41}">100.50'), "has a currency that is none"),
        (CAMT.format(closing="883.50").replace('"EUR">7<', '"eur">7<'), "has a currency that is none: 'eur'"),
        (":20:S1\n:61:nonsense\n", "has a line that cannot be read: :61:nonsense"),
        (CAMT.format(closing="883.50").replace("2026-11-24<", "2026-11-31<"), "has a day that is none: '2026-11-31'"),
        (":20:S1\n:60F:EUR5\n", "has a balance that cannot be read"),
        (":20:S1\n", "without an opening balance"),
        (
            MT940.format(closing="909,50").partition(":62F:")[0],
            "is cut off: from 1000 EUR on it has no closing balance",
        ),
        (MT940.format(closing="909,50") + ":61:261125D9,NTRFNONREF\n", "has a line outside of its balances"),
        (
            PAGES.format(opening="893,"),
            "from 900 its lines lead to 900 EUR, and it closes with 893: a page of it may be",
        ),
        (batch("100", ("tf-1", ""), ("tf-2", "")), "an entry of -100 EUR whose 2 parts do not add up to it"),
        (batch("100", ("tf-1", "60"), ("tf-2", "60")), "whose 2 parts do not add up to it: ask for"),
    ],
)
def test_what_cannot_be_read_or_does_not_add_up_is_refused(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSheet, match=says):
        entries(tmp_path, text)


def test_each_transaction_of_a_batch_is_a_line_in_the_currency_of_its_entry(tmp_path: Path) -> None:
    def read(text: str) -> list[tuple[Any, ...]]:
        return [(each[1], each[2], each[3]) for each in entries(tmp_path, text, "statement.xml")]

    two = [("tf-1", None, 60), ("tf-2", None, 40)]
    assert read(batch("100", ("tf-1", "60"), ("tf-2", "40"))) == two
    assert read(batch("101.5", ("tf-1", "60"), ("tf-2", "40"), more=CHARGES)) == two, "the charges are no payment"
    assert read(batch("20", ("tf-1", "60"), ("tf-2", "+40"))) == [("tf-1", None, 60), ("tf-2", "charge", 40)]
    foreign = batch("100", ("tf-1", "60"), ("tf-2", "40"))
    for amount in ("60", "40"):
        foreign = foreign.replace(AMOUNT.format("TxAmt", amount, "EUR"), AMOUNT.format("InstdAmt", "99", "USD") + "{}")
    foreign = foreign.format(*(AMOUNT.format("TxAmt", amount, "EUR") for amount in ("60", "40")))
    assert read(foreign.replace("<AmtDtls>", '<Amt Ccy="USD">99</Amt><AmtDtls>')) == two
    assert read(batch("100", ("a", ""), ("b", ""), mark="CRDT")) == [(None, "charge", 100)], "nobody's payment of ours"


@pytest.mark.parametrize(
    "said",
    [
        "166?00TRANSFER?20EREF+{0:.22}?21{0:.0}{1}?22SVWZ+rent?30GENODEFF",
        "166?20EREF+{0}{1}?30GENODEFF",
        "EREF+{0}\n{1}KREF+S-7\nSVWZ+rent",
        "/TRTP/SEPA/EREF/{0}{1}/REMI/rent",
    ],
)
def test_a_reference_of_an_mt940_file_is_read_to_its_end(said: str, tmp_path: Path) -> None:
    name = "tf-wz6cxx4j45kmacblhxym44bsvu"
    text = MT940.format(closing="909,50").replace(
        "166?00TRANSFER?20EREF+tf-abc?21SVWZ+rent", said.format(name[:22], name[22:])
    )
    for changed in (text, text.replace("NONREF//P1", "KREF+//P1"), "\ufeff" + text):
        assert entries(tmp_path, changed)[0][:2] == ("P1", name)


def test_a_line_without_a_reference_of_the_bank_is_named_by_all_that_it_says(tmp_path: Path) -> None:
    def read(**changes: str) -> list[str]:
        text = batch("100", ("RENT", "")).replace("<AcctSvcrRef>B1</AcctSvcrRef>", "<NtryRef>1</NtryRef>{day}")
        text = text.format(day="<BookgDt><Dt>2026-11-24</Dt></BookgDt>")
        for old, new in changes.items():
            text = text.replace({"day": "2026-11-24", "state": "BOOK"}[old], new)
        return [each[0] for each in entries(tmp_path, text, "statement.xml")]

    assert read() == ["RENT 2026-11-24-100EUR"]
    assert read(day="2026-12-24") == ["RENT 2026-12-24-100EUR"]
    assert read(state="PDNG") == [], "nothing tells that it is the same line once it is booked"


@pytest.mark.parametrize(
    ("valued", "booked", "day"),
    [
        ("280301", "0229", date(2028, 2, 29)),
        ("280228", "0229", date(2028, 2, 29)),
        ("271231", "0101", date(2028, 1, 1)),
        ("280102", "1230", date(2027, 12, 30)),
    ],
)
def test_the_booking_day_of_an_mt940_line_is_the_nearest_one_to_its_value_date(
    valued: str, booked: str, day: date, tmp_path: Path
) -> None:
    [line] = entries(tmp_path, f":20:S1\n:60F:C280101EUR0,\n:61:{valued}{booked}C5,NTRFNONREF//B1\n:62F:C280301EUR5,\n")
    assert line[5] == day


def test_a_booking_day_that_no_year_near_it_has_is_refused(tmp_path: Path) -> None:
    text = ":20:S1\n:60F:C260101EUR0,\n:61:2603010229C5,NTRFNONREF//B1\n:62F:C260301EUR5,\n"
    with pytest.raises(InvalidSheet, match="has a day that is none: '0229' beside 2026-03-01"):
        entries(tmp_path, text)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_camt_file_may_be_in_utf_16_and_has_no_document_type_there(encoding: str, tmp_path: Path) -> None:
    file, text = tmp_path / "statement.xml", CAMT.format(closing="883.50")
    file.write_text(text)
    expected = read_statement(file, UTC).entries
    text = text.replace("UTF-8", "UTF-16")
    file.write_bytes(text.encode(encoding))
    assert read_statement(file, UTC).entries == expected
    file.write_bytes(text.replace("<Document", "<!DOCTYPE a>\n<Document", 1).encode(encoding))
    with pytest.raises(InvalidSheet, match="holds a document type"):
        read_statement(file, UTC)
