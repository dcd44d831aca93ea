"""Statements of banks: what is read of camt.053 and MT940, and what is refused by name."""

from dataclasses import asdict
from datetime import date
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


def entries(folder: Path, text: str, name: str = "statement.sta") -> list[tuple[Any, ...]]:
    file = folder / name
    file.write_text(text)
    read = [asdict(each) for each in read_statement(file).entries]
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
        ('<!DOCTYPE a [<!ENTITY b "c">]><Document/>', "holds a document type"),
        (CAMT.format(closing="883.50").replace("100.50", "1e2"), "has an amount that is none: '1e2'"),
        (CAMT.format(closing="883.50").replace("DBIT", "X", 1), "has an amount without CRDT or DBIT"),
        (":20:S1\n:61:nonsense\n", "has a line that cannot be read: :61:nonsense"),
        (CAMT.format(closing="883.50").replace("2026-11-24<", "2026-11-31<"), "has a day that is none: '2026-11-31'"),
        (":20:S1\n:60F:EUR5\n", "has a balance that cannot be read"),
        (":20:S1\n", "without an opening balance"),
    ],
)
def test_what_cannot_be_read_or_does_not_add_up_is_refused(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSheet, match=says):
        entries(tmp_path, text)
