"""`treasury template`."""

from collections.abc import Mapping
from pathlib import Path

from flows.commands.common import DONE, configured_desk, say_files
from treasury.errors import InputError
from treasury.payments.offers import bank_names
from treasury.provider.fields import country_codes
from treasury.provider.reach import DIRECT
from treasury.settings import read_settings
from treasury.sheets.template_files import write_template
from treasury.sheets.templates import template_of


def template(kind: str, /, *, country: str | None = None, out: Path | None = None) -> int:
    """Write an empty sheet to fill in: its columns, what each is for, and two example rows to replace.

    A sheet that still holds an example row is refused.

    Parameters
    ----------
    kind:
        Which sheet: pay, withdraw, scan-pay, collect, addresses, provision, balances or statement.
    country:
        Payments to this country alone, by its code of two letters: only the columns that these need.
    out:
        The file, .xlsx or .csv; it must not be there yet. KIND.xlsx in this folder when left out.

    """
    found = template_of(kind, country, _bank_names(kind, country))
    file = out or Path(f"{kind}-{country.upper()}.xlsx" if country else f"{kind}.xlsx")
    if file.exists():
        raise InputError(f"{file} is there already: name another file with --out")
    write_template(found, file)
    say_files([file])
    print(f"{len(found.columns)} columns; replace the example rows")
    return DONE


def _bank_names(kind: str, country: str | None) -> Mapping[str, str]:
    """Code of a bank or wallet -> its name, where the service is there to say it."""
    code = "" if country is None else country.strip().upper()
    if kind != "pay" or code not in country_codes() or not read_settings().has_account:
        return {}
    reach = DIRECT.get(code)
    return bank_names(configured_desk(), code, None if reach is None else reach.currency)
