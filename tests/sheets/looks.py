"""Looks of a workbook's cells that hide what is in them, and looks that hide nothing."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from tests.sheets.books import BANK, KIND, MAIN, RELATIONS, Raw, number, parts, save, sheet_xml, styled, table, workbook
from tests.sheets.striking_rules import End

LOOK = 1
"""The style that the look under test has; 0 is the plain one."""

LINES = table([BANK, BANK | {"row_ref": "r2"}])


def colour(**said: str) -> str:
    return "<color " + " ".join(f"{name}={quoteattr(value)}" for name, value in said.items()) + "/>"


def solid(**said: str) -> str:
    return (
        f'<fill><patternFill patternType="solid">{colour(**said).replace("color", "fgColor", 1)}</patternFill></fill>'
    )


WHITE, RED, DARK = colour(rgb="FFFFFFFF"), solid(rgb="FFC00000"), solid(rgb="FF1F3864")


def styles_xml(font: str = "", fill: str = "", code: str = "General", dxf: str = "", colours: str = "") -> str:
    """Styles of a plain look and of one other: what stands in its font, its fill and its number format."""
    return (
        f'<styleSheet xmlns={MAIN}><numFmts><numFmt numFmtId="200" formatCode={quoteattr(code)}/></numFmts>'
        f'<fonts><font><sz val="11"/><color theme="1"/></font><font>{font}</font></fonts>'
        '<fills><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill>'
        f'{fill}</fills><cellStyleXfs><xf fontId="1" fillId="2"/></cellStyleXfs><cellXfs><xf numFmtId="0" fontId="0" '
        f'fillId="0"/><xf numFmtId="200" fontId="1" fillId="{2 if fill else 0}"/></cellXfs>'
        f"<dxfs><dxf>{dxf}</dxf></dxfs><colors>{colours}</colors></styleSheet>"
    )


def theme_xml(light: str = '<a:sysClr val="window" lastClr="FFFFFF"/>') -> str:
    named = {"dk1": '<a:srgbClr val="000000"/>', "lt1": light, "dk2": '<a:srgbClr val="44546A"/>'}
    named |= {"lt2": '<a:srgbClr val="E7E6E6"/>', "accent1": '<a:srgbClr val="4472C4"/>'}
    inside = "".join(f"<a:{name}>{value}</a:{name}>" for name, value in named.items())
    scheme = f'<a:clrScheme name="x">{inside}</a:clrScheme>'
    return f'<a:theme xmlns:a="a"><a:themeElements>{scheme}</a:themeElements></a:theme>'


def book(
    lines: list[list[Any]], strings: str = "", theme: str | None = None, tables: str = "", **look: str
) -> Callable[[Path], Path]:
    """A workbook of these lines, whose style 1 has this look. `tables`: attributes and content of one."""
    rules = look.pop("rules", "")
    made = parts({"Payroll": sheet_xml(lines, after=rules)}, strings=strings) | {"xl/styles.xml": styles_xml(**look)}
    if theme is not None:
        relations = made["xl/_rels/workbook.xml.rels"]
        related = f'<Relationship Id="h" Type="{KIND}/theme" Target="theme/theme1.xml"/></Relationships>'
        made["xl/_rels/workbook.xml.rels"] = relations.replace("</Relationships>", related)
        made["xl/theme/theme1.xml"] = theme_xml(theme) if theme else theme_xml()
    if tables:
        made["xl/worksheets/_rels/sheet1.xml.rels"] = (
            f'<Relationships xmlns="{RELATIONS}"><Relationship Id="r1" Type="{KIND}/table" '
            'Target="../tables/table1.xml"/></Relationships>'
        )
        made["xl/tables/table1.xml"] = f"<table xmlns={MAIN} {tables}</table>"
    return lambda folder: save(folder, made)


def with_cell(column: str, value: Any, row: int = 2) -> list[list[Any]]:
    """The two rows, with one other cell; `row` 0 is the header."""
    lines = [list(line) for line in LINES]
    lines[row][lines[0].index(column) if row else LINES[0].index(column)] = value
    return lines


def looking(value: str = "Budi Contoh") -> list[list[Any]]:
    """The two rows, the name of the second in the look under test."""
    return with_cell("account_name", styled(value, LOOK))


def counting(value: str = "12.5") -> list[list[Any]]:
    """The two rows, the amount of the second a number in the look under test."""
    return with_cell("amount", number(value, LOOK))


def runs(*pieces: tuple[str, str]) -> str:
    """Rich text: what stands in the properties of each piece, and its text."""
    return "".join(
        f'<r>{f"<rPr>{look}</rPr>" if look else ""}<t xml:space="preserve">{escape(text)}</t></r>'
        for look, text in pieces
    )


def inline(*pieces: tuple[str, str], style: int = 0) -> Raw:
    return Raw(f'<c r="{{at}}" s="{style}" t="inlineStr"><is>{runs(*pieces)}</is></c>')


def string(*pieces: tuple[str, str]) -> str:
    """Return the same as a text that cells point to."""
    return f"<si>{runs(*pieces)}</si>"


SHARED = Raw('<c r="{at}" t="s"><v>0</v></c>')
SHARED_LOOK = Raw(f'<c r="{{at}}" s="{LOOK}" t="s"><v>0</v></c>')
PALE_RUN = (colour(rgb="FFFEFEFE"), "Contoh")
BLACK_COLOURS = '<rgbColor rgb="00000000"/>' * 30
PALETTE = f'<indexedColors>{BLACK_COLOURS}<rgbColor rgb="00FFFFFF"/></indexedColors>'

UNSEEN_TEXT: dict[str, Callable[[Path], Path]] = {
    "white": book(looking(), font=WHITE),
    "white without alpha": book(looking(), font=colour(rgb="00FFFFFF")),
    "white of six digits": book(looking(), font=colour(rgb="ffffff")),
    "nearly white": book(looking(), font=colour(rgb="FFFDFCFB")),
    "the theme's white": book(looking(), font=colour(theme="0")),
    "the theme's white, of a theme": book(looking(), font=colour(theme="0"), theme=""),
    "a theme's own white": book(
        looking(), font=colour(theme="3"), theme='<a:srgbClr val="111111"/>', fill=solid(rgb="FF44546A")
    ),
    "indexed white": book(looking(), font=colour(indexed="9")),
    "indexed white of the first eight": book(looking(), font=colour(indexed="1")),
    "white of a palette of its own": book(looking(), font=colour(indexed="30"), colours=PALETTE),
    "white on white": book(looking(), font=WHITE, fill=solid(theme="0")),
    "red on red": book(looking(), font=colour(rgb="FFC00000"), fill=RED),
    "an accent on itself": book(looking(), font=colour(theme="4", tint="0.3999"), fill=solid(theme="4", tint="0.3999")),
    "an index on itself": book(looking(), font=colour(indexed="22"), fill=solid(indexed="22")),
    "black on black": book(looking(), font=colour(theme="1"), fill=solid(rgb="FF000000")),
    "of size one": book(looking(), font='<sz val="1"/>'),
    "of size two, grey on red": book(looking(), font='<sz val="2"/>' + colour(rgb="FF808080"), fill=RED),
    "format ;;;": book(looking(), code=";;;"),
    "format of no text": book(looking(), code="0;-0;0;"),
    "format of blanks": book(looking(), code='"";"";"";" "_)* '),
    "format that says another name": book(looking(), code='0;-0;0;"Siti Contoh"'),
    "format with a colour": book(looking(), code="0;-0;0;[White]@"),
    "format of text alone with a colour": book(looking(), code="[Color2]@"),
    "a white run": book(with_cell("account_name", inline(("", "Budi "), PALE_RUN))),
    "a tiny run": book(with_cell("account_name", inline(("", "Budi "), ('<sz val="1"/>', "Contoh")))),
    "a shared text's white run": book(with_cell("account_name", SHARED), strings=string(("", "Budi "), PALE_RUN)),
    "a shared text's first run, as white as its cell": book(
        with_cell("account_name", SHARED_LOOK),
        strings=string(("", "Budi "), (colour(theme="1"), "Contoh")),
        font=WHITE,
    ),
    "in a light table": book(
        looking(), font=WHITE, tables='ref="A1:M3"><tableStyleInfo name="TableStyleMedium2" showFirstColumn="0"/>'
    ),
    "beside a dark table": book(looking(), font=WHITE, tables='ref="A1:G3"><tableStyleInfo name="TableStyleDark2"/>'),
    "in a table without a style": book(looking(), font=WHITE, tables='ref="A1:M3">'),
}
"""The name in row 3 is not seen."""

UNSEEN_NUMBERS: dict[str, Callable[[Path], Path]] = {
    "white": book(counting(), font=WHITE),
    "format ;;;": book(counting(), code=";;;"),
    "format ;": book(counting(), code=";"),
    "format without the positive": book(counting(), code=";-0.00;0"),
    "format of text alone": book(counting(), code=";;;@"),
    "format with a colour": book(counting(), code="[White]0.00"),
    "format with a condition": book(counting(), code='[=12.5]"";0.00'),
    "format with another condition": book(counting(), code="[>100]0.00;"),
    "format with two conditions": book(counting(), code="[>100]0.00;[>50]0.00;[White]0.00"),
    "a white formula": book(with_cell("amount", Raw(f'<c r="{{at}}" s="{LOOK}"><f>A1</f><v>5</v></c>')), font=WHITE),
}
"""The amount in row 3 is not seen."""

SEEN_TEXT: dict[str, Callable[[Path], Path]] = {
    "no colour": book(looking(), font='<sz val="11"/>'),
    "no colour on black": book(looking(), fill=solid(rgb="FF000000")),
    "automatic": book(looking(), font=colour(auto="1")),
    "the window's text": book(looking(), font=colour(indexed="64")),
    "a colour that there is not": book(looking(), font=colour(indexed="99") + colour(theme="77")),
    "colours that are none": book(looking(), font=colour(rgb="white"), fill=solid(rgb="white")),
    "pale grey": book(looking(), font=colour(rgb="FFD9D9D9")),
    "white on dark": book(looking(), font=WHITE, fill=DARK),
    "white on the theme's dark": book(looking(), font=colour(theme="0"), fill=solid(theme="1")),
    "white on an accent": book(looking(), font=colour(theme="0"), fill=solid(theme="4", tint="-0.25")),
    "white on a gradient": book(
        looking(),
        font=WHITE,
        fill='<fill><gradientFill><stop position="0"><color rgb="FF000000"/></stop></gradientFill></fill>',
    ),
    "white on a pattern": book(looking(), font=WHITE, fill='<fill><patternFill patternType="darkGrid"/></fill>'),
    "white on a fill without a colour": book(
        looking(), font=WHITE, fill='<fill><patternFill patternType="solid"/></fill>'
    ),
    "white made dark": book(looking(), font=colour(theme="0", tint="-0.5")),
    "a theme whose light is dark": book(looking(), font=colour(theme="0"), theme='<a:srgbClr val="202020"/>'),
    "an accent on a lighter one": book(looking(), font=colour(theme="4"), fill=solid(theme="4", tint="0.8")),
    "an index on another": book(looking(), font=colour(indexed="22"), fill=solid(indexed="23")),
    "an index of a palette of its own": book(looking(), font=colour(indexed="9"), colours=PALETTE),
    "small": book(looking(), font='<sz val="4"/>'),
    "format ;;;@": book(looking(), code=";;;@"),
    "format without zeros": book(looking(), code="0;-0;;@"),
    "format of numbers": book(looking(), code=";;"),
    "format with text around": book(looking(), code='0;0;0;"Ms "@'),
    "format with a colour on dark": book(looking(), code="0;-0;0;[White]@", fill=DARK),
    "white by its font and red by its format": book(looking(), font=WHITE, code="0;-0;0;[Red]@"),
    "a white run on dark": book(with_cell("account_name", inline(("", "Budi "), PALE_RUN, style=LOOK)), fill=DARK),
    "a white blank run": book(with_cell("account_name", inline((WHITE, " "), ("", "Budi Contoh")))),
    "black runs in a white cell": book(
        with_cell("account_name", SHARED_LOOK), strings=string((colour(rgb="FF000000"), "Budi Contoh")), font=WHITE
    ),
    "in a dark table": book(looking(), font=WHITE, tables='ref="A1:M3"><tableStyleInfo name="TableStyleDark2"/>'),
    "in a table of a style of its own": book(
        looking(), font=WHITE, tables='ref="A1:M3"><tableStyleInfo name="House"/>'
    ),
    "in a table whose first column is dark": book(
        looking(), font=WHITE, tables='ref="H1:M3"><tableStyleInfo name="TableStyleMedium9" showFirstColumn="1"/>'
    ),
    "a white header on dark": book([[styled(name, LOOK) for name in LINES[0]], *LINES[1:]], font=WHITE, fill=DARK),
    "the white header of a table": book(
        [[styled(name, LOOK) for name in LINES[0]], *LINES[1:]],
        font=WHITE,
        tables='ref="A1:M3"><tableStyleInfo name="TableStyleMedium2"/>',
    ),
    "a white blank cell": book([*LINES, [styled(" ", LOOK)]], font=WHITE),
    "a white column of one's own": book(
        [["note", *LINES[0]], *([styled("x", LOOK), *line] for line in LINES[1:])], font=WHITE
    ),
}
"""Nothing of the two rows is hidden."""

SEEN_NUMBERS: dict[str, Callable[[Path], Path]] = {
    name: book(counting(), **look)
    for name, look in {
        "white on dark": {"font": WHITE, "fill": DARK},
        "format without zeros": {"code": "0.00;-0.00;;@"},
        "format of positives alone": {"code": "0.00;;"},
        "format with a colour on dark": {"code": "[White]0.00", "fill": DARK},
        "white by its font and blue by its format": {"font": WHITE, "code": "[Blue]0.00"},
        "format with a condition that is not met": {"code": '[=5]"";0.00'},
        "pale but for negative numbers": {"code": "0.00;[White]-0.00"},
    }.items()
}
"""The amounts are 12.50."""


def rule(inside: str, attributes: str = 'type="expression" dxfId="0"') -> str:
    made = f'<cfRule {attributes} priority="1">{inside}</cfRule>'
    return f'<conditionalFormatting sqref="C2:C99">{made}</conditionalFormatting>'


BY_DXF = rule("<formula>1</formula>")
WHITE_FILL = '<x:fill><x:patternFill><x:bgColor rgb="FFFFFFFF"/></x:patternFill></x:fill>'
INSIDE = f"<x:dxf><x:font>{WHITE.replace('<', '<x:')}</x:font>{WHITE_FILL}</x:dxf>"
NEWER = (
    '<extLst><ext xmlns:x="x" uri="u"><x:conditionalFormattings><x:conditionalFormatting><x:cfRule type="expression" '
    f'priority="1"><x:f>1</x:f>{INSIDE}</x:cfRule><x:sqref>C2:C9</x:sqref></x:conditionalFormatting>'
    "</x:conditionalFormattings></ext></extLst>"
)
ON_WHITE = '<fill><patternFill><bgColor rgb="FFFFFFFF"/></patternFill></fill>'
ICONS = '<iconSet iconSet="3Arrows" showValue="0"><cfvo type="percent" val="0"/></iconSet>'
SCALE = f'<colorScale><cfvo type="min"/><cfvo type="max"/>{WHITE}{WHITE}</colorScale>'

UNSEEN_BY_RULE: dict[str, Callable[[Path], Path]] = {
    "white on white": book(LINES, rules=BY_DXF, dxf=f"<font>{WHITE}</font>{ON_WHITE}"),
    "white where nothing is filled": book(LINES, rules=BY_DXF, dxf=f"<font>{WHITE}</font>"),
    "a format": book(LINES, rules=BY_DXF, dxf='<numFmt numFmtId="201" formatCode=";;;"/>'),
    "a rule of a newer program": book(LINES, rules=NEWER),
    "icons alone": book(LINES, rules=rule(ICONS, 'type="iconSet"')),
}
"""The amounts from row 2 on may not be seen."""

CHANGED_BY_RULE = ('0.00" EUR"', "[$€-407] 0.00", "0%", "[>9]0,;0", 'General" USD"', "yyyy")
"""Formats by a rule that show the amounts from row 2 on as something else."""

SEEN_BY_RULE: dict[str, Callable[[Path], Path]] = {
    "white on red": book(LINES, rules=BY_DXF, dxf=f"<font>{WHITE}</font>{ON_WHITE.replace('FFFFFFFF', 'FFC00000')}"),
    "white where cells are filled": book(LINES, rules=BY_DXF, dxf=f"<font>{WHITE}</font>", fill=DARK),
    "red": book(LINES, rules=BY_DXF, dxf=f"<font>{colour(rgb='FFC00000')}</font>"),
    "white borders": book(LINES, rules=BY_DXF, dxf=f"<border><left>{WHITE}</left></border>{ON_WHITE}"),
    "a format without zeros": book(LINES, rules=BY_DXF, dxf='<numFmt numFmtId="201" formatCode="0.00;-0.00;;@"/>'),
    "a dash for zeros": book(LINES, rules=BY_DXF, dxf='<numFmt numFmtId="201" formatCode="0.00;-0.00;-"/>'),
    "a currency elsewhere": book(
        LINES, rules=BY_DXF.replace("C2", "G2"), dxf='<numFmt numFmtId="201" formatCode="0.00 &quot;EUR&quot;"/>'
    ),
    "a scale of colours": book(LINES, rules=rule(SCALE, 'type="colorScale"')),
    "icons beside values": book(LINES, rules=rule(ICONS.replace(' showValue="0"', ""), 'type="iconSet"')),
}
"""Nothing of the two rows is hidden."""


def unseen_files() -> Iterator[tuple[str, Callable[[Path], Path], End]]:
    """All that is not seen: a name, the file, and the problem that is said."""
    for column, group in (("account_name", UNSEEN_TEXT), ("amount", UNSEEN_NUMBERS)):
        for name, make in group.items():
            yield f"{column} unseen: {name}", make, (3, column, "not_shown")
    for name, make in UNSEEN_BY_RULE.items():
        yield f"unseen by a rule: {name}", make, (2, "amount", "not_shown")
    for code in CHANGED_BY_RULE:
        dxf = f'<numFmt numFmtId="201" formatCode={quoteattr(code)}/>'
        everywhere = BY_DXF.replace("C2:C99", "A2:M99")
        yield f"changed by a rule: {code}", book(LINES, rules=everywhere, dxf=dxf), (2, "amount", "shown_by_rule")
    row = [*LINES[:2], [styled(text, LOOK) if text else "" for text in LINES[2]]]
    yield "row unseen", book(row, font=WHITE), (3, "row", "not_shown")
    formula_of_text = Raw(f'<c r="{{at}}" s="{LOOK}" t="str"><f>A1</f><v>x</v></c>')
    yield "formula unseen", book(with_cell("remark", formula_of_text), font=WHITE), (3, "remark", "not_shown")
    named = with_cell("remark", styled("remark", LOOK), row=0)
    yield "name of a column unseen", book(named, font=WHITE), (1, "remark", "not_shown")
    low = {3: 'ht="0.75"'}
    yield "row of a point", lambda folder: workbook(folder, LINES, rows=low), (3, "row", "hidden_row")
    narrow = '<cols><col min="3" max="3" width="0.1"/></cols>'
    yield "column of a hair", lambda folder: workbook(folder, LINES, before=narrow), (1, "amount", "hidden_column")
