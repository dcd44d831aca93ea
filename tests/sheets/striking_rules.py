"""Elements after the rows that hide some of them: formats that strike cells out, and merged cells."""

from tests.sheets.books import BANK

End = tuple[int, str, str]
"""Row, column and code of a problem; row 0 is the file."""

_DXF = "<x:dxf><x:font><x:strike/></x:font></x:dxf>"


def merged(*places: str) -> str:
    return "<mergeCells>" + "".join(f'<mergeCell ref="{place}"/>' for place in places) + "</mergeCells>"


HIDDEN_BELOW: dict[str, tuple[str, list[End]]] = {
    "struck out by a rule for a column": (
        '<conditionalFormatting sqref="Z1 C2:C99"><cfRule type="expression" dxfId="1" priority="1">'
        "<formula>1</formula></cfRule></conditionalFormatting>",
        [(2, "amount", "struck_out")],
    ),
    "struck out by the second rule of a row": (
        '<conditionalFormatting sqref="3:3"><cfRule type="expression" dxfId="0" priority="1"><formula>1</formula>'
        '</cfRule><cfRule type="expression" dxfId="1" priority="2"><formula>1</formula></cfRule>'
        "</conditionalFormatting>",
        [(3, column, "struck_out") for column in BANK],
    ),
    "struck out by a rule of a newer program": (
        '<extLst><ext xmlns:x="x" uri="u"><x:conditionalFormattings><x:conditionalFormatting><x:cfRule '
        f'type="expression" priority="1"><x:f>1</x:f>{_DXF}</x:cfRule><x:sqref>$B:$B</x:sqref>'
        "</x:conditionalFormatting></x:conditionalFormattings></ext></extLst>",
        [(2, "route", "struck_out")],
    ),
    "amounts merged": (merged("C2:C3"), [(2, "amount", "merged")]),
    "amounts merged with blank rows": (merged("C3:C9"), [(3, "amount", "merged")]),
    "rows merged": (merged("A2:M3"), [(2, column, "merged") for column in BANK]),
    "cells of a row merged": (merged("B3:C3"), [(3, "route", "merged"), (3, "amount", "merged")]),
    "a header merged with its rows": (merged("C1:C2"), [(2, "amount", "merged")]),
    "names of columns merged": (merged("B1:C1"), [(1, "amount", "merged")]),
    "a second range of the same column": (merged("N5:P9", "C2:C2", "$C$3:$C$4"), [(3, "amount", "merged")]),
}
"""Elements that hide something of the two rows of a table, and the problems that are said."""
