"""Numbers that carry a check of their own: accounts, documents, phones, e-mails, judged by libraries that know them.

Which column holds which number follows from the interface (public facts 5.6, 6 and 7.2) or from the number's own name;
where neither says it, nothing is judged. The libraries are imported when the first such number is met. Nothing here
looks a name up in a network.
"""

import functools
import importlib
import re
from collections.abc import Callable, Mapping

from treasury.errors import Problem
from treasury.masking import mask
from treasury.orders.rows import BIC_NAMES

Check = Callable[[str, str], str | None]
"""From a value and the country of the account to the rule that the value breaks; None where it is right."""

Found = tuple[str, str, Check]
"""Column, value, and the check that it has to pass."""


def is_iban_of(value: str, country: str) -> bool:
    """Tell whether an account is written as the IBANs of this country are, be it cut off or mistyped. An alias is
    none."""
    if "@" in value:
        return False
    plain = re.sub(r"[\s-]", "", value).upper()
    return plain.startswith(country) and bool(re.match(r"[A-Z]{2}[0-9]{2}", plain)) and _has_ibans(country)


@functools.cache
def _has_ibans(country: str) -> bool:
    from schwifty import registry
    from schwifty.exceptions import SchwiftyException

    try:
        registry.get_iban_spec(country)
    except SchwiftyException:
        return False
    return True


def iban(value: str, country: str) -> str | None:
    """ISO 13616: length, characters and check digits."""
    from schwifty import IBAN
    from schwifty.exceptions import InvalidChecksumDigits, InvalidLength, SchwiftyException

    try:
        IBAN(value.replace("-", " "))
    except InvalidChecksumDigits:
        return "is no IBAN: its check digits do not fit, so a digit is wrong or two are swapped"
    except InvalidLength:
        return f"is no IBAN: it has not as many characters as one of {country}"
    except SchwiftyException:
        return f"is not written as an IBAN of {country}"
    return None


def bic(value: str, _: str) -> str | None:
    """ISO 9362: form and country."""
    from schwifty import BIC
    from schwifty.exceptions import SchwiftyException

    try:
        BIC(value)
    except SchwiftyException:
        return "is no BIC (SWIFT code): that has 8 or 11 characters, and a country in the fifth and sixth"
    return None


def of_standard(module: str, name: str) -> Check:
    """A check of python-stdnum."""

    def check(value: str, _: str) -> str | None:
        valid = importlib.import_module(f"stdnum.{module}").is_valid(value)
        return None if valid else f"is no {name}: a digit is wrong, missing or too many"

    return check


def ifsc(value: str, _: str) -> str | None:
    """Four letters of the bank, a zero, six letters or digits of the branch (Reserve Bank of India)."""
    if re.fullmatch(r"[A-Za-z]{4}0[A-Za-z0-9]{6}", value):
        return None
    return "is no IFSC code: that has four letters, a zero, and six letters or digits, for example HDFC0000123"


def clabe(value: str, _: str) -> str | None:
    """Eighteen digits, the last of them from the others by the weights 3, 7, 1 (Banco de México)."""
    digits = [int(each) for each in value if each.isdigit()]
    total = sum(digit * weight % 10 for digit, weight in zip(digits[:17], (3, 7, 1) * 6, strict=False))
    if re.fullmatch(r"[0-9]{18}", value) and (10 - total % 10) % 10 == digits[17]:
        return None
    return "is no CLABE: that has 18 digits, and the last follows from the others"


_PHONE = re.compile(r"\+?[0-9 ()./\-]+")


def phone(value: str, country: str) -> str | None:
    """Tell whether it is as long as a phone number may be, with the country's code or, in its own country, without."""
    from phonenumbers import NumberParseException, is_possible_number, parse

    if not _PHONE.fullmatch(value):
        return "is no phone number: write digits alone, with the country's code"
    digits = "".join(each for each in value if each.isdigit())
    for text, region in ((f"+{digits}", None), (digits, country)):
        try:
            if is_possible_number(parse(text, region)):
                return None
        except NumberParseException:
            continue
    return "is no phone number: it is too short, too long, or has no country's code"


def contact_phone(value: str, country: str) -> str | None:
    """Check a number that nothing is paid to: one without the country's code is judged by its length alone."""
    digits = sum(map(str.isdigit, value))
    if _PHONE.fullmatch(value) and not value.startswith("+") and 4 <= digits <= 15:
        return None
    return phone(value, country)


_PLAIN_LOCAL = re.compile(r"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*")


def email(value: str, _: str = "") -> str | None:
    """Tell whether it is written as one e-mail address is."""
    if value.count("@") > 1 and re.search(r"[;,\s]", value):
        return "holds two e-mail addresses: write one"
    local, _, domain = value.rpartition("@")
    # Most addresses are plain, and of a few domains: each domain is judged once.
    if _PLAIN_LOCAL.fullmatch(local) and len(local) <= 64:
        return _email_fault(f"a@{domain}")
    return _email_fault.__wrapped__(value)


@functools.lru_cache(maxsize=4096)
def _email_fault(value: str) -> str | None:
    from email_validator import EmailNotValidError, validate_email

    try:
        validate_email(value, check_deliverability=False)
    except EmailNotValidError:
        # Names that RFC 2606 keeps for tests are well written, and not for us to judge.
        if re.fullmatch(r"[^@\s]+@(?:[a-z0-9-]+\.)+(?:test|example|invalid|localhost|local)", value, re.IGNORECASE):
            return None
        return "is no e-mail address"
    return None


_BY_NAME: Mapping[str, Check] = {
    **dict.fromkeys(BIC_NAMES, bic),
    "iban": iban,
    **dict.fromkeys(("ifsc", "ifsccode"), ifsc),
    "clabe": clabe,
    "cbu": of_standard("ar.cbu", "CBU"),
    "cpf": of_standard("br.cpf", "CPF"),
    "cnpj": of_standard("br.cnpj", "CNPJ"),
    "pan": of_standard("in_.pan", "PAN"),
    "nik": of_standard("id.nik", "NIK"),
    "npwp": of_standard("id.npwp", "NPWP"),
    "cnic": of_standard("pk.cnic", "CNIC"),
    **dict.fromkeys(("email", "emailaddress"), email),
}
"""Numbers known by their own name: a column `field.<name>`, or the kind of a document."""

_ROUTING = of_standard("us.rtn", "routing number (ABA)")
_ROUTING_NAMES = ("routingnumber", "abaroutingnumber", "aba", "abanumber", "achroutingnumber", "routingcode")

_OF_COUNTRY: Mapping[str, frozenset[str]] = {
    "cpf": frozenset({"BR"}),
    "cnpj": frozenset({"BR"}),
    "cbu": frozenset({"AR"}),
    "clabe": frozenset({"MX"}),
    "pan": frozenset({"IN"}),
    "ifsc": frozenset({"IN"}),
    "ifsccode": frozenset({"IN"}),
    "nik": frozenset({"ID"}),
    "npwp": frozenset({"ID"}),
    "cnic": frozenset({"PK"}),
}
"""Names that mean these numbers in one country only."""

_ALIAS: Mapping[str, Check] = {"PHONE": phone, "EMAIL": email, "CPF": _BY_NAME["cpf"], "CNPJ": _BY_NAME["cnpj"]}
"""The account_type of a wallet -> the check of its account (document, endpoint 6)."""


def check_named(name: str, country: str) -> Check | None:
    """The check of a number by its name, in this country; None where no rule is known."""
    plain = re.sub(r"[^a-z]", "", name.casefold())
    if plain in _ROUTING_NAMES:
        return _ROUTING if country == "US" else None
    if country not in _OF_COUNTRY.get(plain, {country}):
        return None
    return _BY_NAME.get(plain)


def check_of_account(value: str, country: str) -> Check | None:
    """The check of a bank account's number; None where no rule is known."""
    if is_iban_of(value, country):
        return iban
    digits = value.isdigit() and len(value)
    if country == "MX" and digits == 18:
        return clabe
    return _BY_NAME["cbu"] if country == "AR" and digits == 22 else None


def check_of_wallet(account_type: str) -> Check | None:
    """The check of a wallet's account."""
    return _ALIAS.get(account_type.upper())


def faults(found: list[Found], country: str) -> list[Problem]:
    """The problems of these values, which are masked."""
    problems = []
    for column, value, check in found:
        rule = check(value, country)
        if rule is not None:
            problems.append(Problem(column, rule, repr(mask(value)), code="check_failed"))
    return problems
