"""Codes that a drop-down shows with their names, such as `DE: Germany`, and how such a cell is read."""

from collections.abc import Callable, Iterable, Mapping

from treasury.provider.fields import country_name
from treasury.provider.reach import PURPOSES
from treasury.sheets.characters import Fault
from treasury.texts import as_it_looks

SEPARATOR = ": "

NAMES: Mapping[str, Callable[[str], str | None]] = {
    **dict.fromkeys(("country", "beneficiary_country", "nationality", "address_country"), country_name),
    "document_country": country_name,
    "purpose_code": PURPOSES.get,
    **dict.fromkeys(("bank_code", "beneficiary_bank_id", "wallet_code"), lambda _: None),
}
"""Column -> the name of a code; None where only the service knows it (banks, wallets): the plan shows that one."""


def with_names(column: str, codes: Iterable[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """Codes as the drop-down of a column shows them. `known`: code -> its name at the service."""
    if column not in NAMES:
        return tuple(codes)
    named = ((code, NAMES[column](code) or known.get(code)) for code in codes)
    return tuple(f"{code}{SEPARATOR}{name}" if name else code for code, name in named)


def code_of(column: str, text: str) -> tuple[str, Fault | None]:
    """The code in a cell of a column, and what is wrong with the name beside it."""
    code, separator, name = text.partition(SEPARATOR)
    if not separator or column not in NAMES:
        return text, None
    known = NAMES[column](code)
    if known is None or as_it_looks(known) == as_it_looks(name):
        return code.strip(), None
    return text, (f"{code[:20]} is {known}: write the code that is meant, without a name", "other_name")
