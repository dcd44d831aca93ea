"""Conditional formats that strike out cells, and what is said of a table that has them."""

from tests.sheets.books import BANK

End = tuple[int, str, str]
"""Row, column and code of a problem; row 0 is the file."""

_DXF = "<x:dxf><x:font><x:strike/></x:font></x:dxf>"
STRUCK_BY_RULE: dict[str, tuple[str, list[End]]] = {
    "a rule for a column": (
        '<conditionalFormatting sqref="Z1 C2:C99"><cfRule type="expression" dxfId="1" priority="1">'
        "<formula>1</formula></cfRule></conditionalFormatting>",
        [(2, "amount", "struck_out")],
    ),
    "the second rule of a row": (
        '<conditionalFormatting sqref="3:3"><cfRule type="expression" dxfId="0" priority="1"><formula>1</formula>'
        '</cfRule><cfRule type="expression" dxfId="1" priority="2"><formula>1</formula></cfRule>'
        "</conditionalFormatting>",
        [(3, column, "struck_out") for column in BANK],
    ),
    "a rule of a newer program": (
        '<extLst><ext xmlns:x="x" uri="u"><x:conditionalFormattings><x:conditionalFormatting><x:cfRule '
        f'type="expression" priority="1"><x:f>1</x:f>{_DXF}</x:cfRule><x:sqref>$B:$B</x:sqref>'
        "</x:conditionalFormatting></x:conditionalFormattings></ext></extLst>",
        [(2, "route", "struck_out")],
    ),
}
"""Conditional formats that strike out cells of a table."""
