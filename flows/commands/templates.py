"""`treasury template`."""

from pathlib import Path

from flows.commands.common import DONE, say_files
from treasury.errors import InputError
from treasury.sheets.template_files import write_template
from treasury.sheets.templates import template_of


def template(kind: str, /, *, country: str | None = None, out: Path | None = None) -> int:
    """Write an empty sheet to fill in: its columns, what each is for, and two example rows to replace.

    A sheet that still holds an example row is refused.

    Parameters
    ----------
    kind:
        Which sheet: pay, withdraw, scan-pay, addresses, provision, balances or statement.
    country:
        Payments to this country alone, by its code of two letters: only the columns that these need.
    out:
        The file, .xlsx or .csv; it must not be there yet. KIND.xlsx in this folder when left out.

    """
    found = template_of(kind, country)
    file = out or Path(f"{kind}-{country.upper()}.xlsx" if country else f"{kind}.xlsx")
    if file.exists():
        raise InputError(f"{file} is there already: name another file with --out")
    write_template(found, file)
    say_files([file])
    print(f"{len(found.columns)} columns; replace the example rows")
    return DONE
