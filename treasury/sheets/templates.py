"""Templates of the sheets that are read: their columns, what each is for, and two rows that show how."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType

from pydantic import BaseModel

from treasury.errors import InputError
from treasury.orders.rows import Route
from treasury.promptpay import build_promptpay
from treasury.provider.card_users import Address, CreateCardUserWithKycLink, Individual, KycDocumentWithFace, KycLink
from treasury.provider.fiat_payouts import (
    CreateFiatPayout,
    EnterpriseBeneficiary,
    FiatPayoutQuote,
    IndividualBeneficiary,
)
from treasury.provider.fields import country_codes, fiat_codes
from treasury.provider.orders import DepositAddress, Pay, Payout, Withdraw
from treasury.provider.reach import BANK_FIELDS, DEBITED, DIRECT, NETWORKS, PURPOSES, QUOTED, Reach
from treasury.provider.scan_to_pay import SubmitScanToPay
from treasury.sheets import (
    balances_sheet,
    beneficiaries,
    card_users_sheet,
    deposit_addresses_sheet,
    invoices,
    qr_codes,
    statement,
    withdrawals,
)
from treasury.sheets.beneficiaries import FIELD
from treasury.sheets.cell_texts import EXAMPLE, with_names
from treasury.sheets.control import AMOUNTS
from treasury.sheets.headers import Layout
from treasury.sheets.template_files import Need, Template, TemplateColumn, column_of

KINDS = ("pay", "withdraw", "scan-pay", "collect", "addresses", "provision", "balances", "statement")


def template_of(kind: str, country: str | None = None, names: Mapping[str, str] = MappingProxyType({})) -> Template:
    """The template of a sheet; of payments to one country, its columns alone.

    `names`: code of a bank or wallet there -> its name, as the service says. Raises `InputError` for a kind that there
    is not, a country that there is not, and one where none is asked for.
    """
    if kind not in KINDS:
        raise InputError(f"there is no template called {kind}: write one of {', '.join(KINDS)}")
    if country is None:
        return _named(_payments(None) if kind == "pay" else _OTHERS[kind](), {})
    if kind != "pay":
        raise InputError(f"the template of {kind} is the same for every country: leave --country out")
    code = country.strip().upper()
    if code not in country_codes():
        raise InputError(f"there is no country {country}: write its code of two letters, for example ID or DE")
    return _named(_payments(code), names)


def _named(template: Template, names: Mapping[str, str]) -> Template:
    """The template with the names of codes in its drop-downs: a code without its name is as right."""
    columns = []
    for column in template.columns:
        listed = tuple(names) if column.name == "beneficiary_bank_id" else column.choices
        choices = with_names(column.name, listed, names)
        is_complete = column.is_complete and choices == column.choices
        columns.append(replace(column, choices=choices, is_complete=is_complete))
    return replace(template, columns=tuple(columns))


# --- payments ------------------------------------------------------------------------------------------------------

_ROUTE_NOTE = {
    Route.DIRECT: "direct: one payout order, in the currency of the country.",
    Route.QUOTED: "quoted: a quote is fetched, judged and confirmed.",
}

_QUOTED_COLUMNS: Sequence[tuple[type[BaseModel], tuple[str, ...]]] = (
    (FiatPayoutQuote, beneficiaries.QUOTE),
    (IndividualBeneficiary, tuple(name for name in beneficiaries.PARTY if name != "company_name")),
    (EnterpriseBeneficiary, ("company_name",)),
    (CreateFiatPayout, beneficiaries.CONFIRMATION),
)
"""Columns of the quoted route, by what they are fields of."""


def _payments(country: str | None) -> Template:
    reach = None if country is None else DIRECT.get(country)
    routes = tuple(_ROUTE_NOTE) if country is None else (Route.DIRECT,) if reach else (Route.QUOTED,)
    own = {
        "row_ref": _own("row_ref"),
        "route": TemplateColumn(
            "route", " ".join((*(_ROUTE_NOTE[route] for route in routes), "Required.")), Need.YES, tuple(routes)
        ),
    }
    by_route = {
        Route.DIRECT: {column.name: column for column in _direct(country, reach)},
        Route.QUOTED: {column.name: column for column in _quoted(country)},
    }
    names = dict.fromkeys(name for route in routes for name in by_route[route])
    sent = [_together(name, {route: by_route[route].get(name) for route in routes}) for name in names]
    columns = (*own.values(), *sent, _own("duplicate_ok"))
    there = {column.name for column in columns}
    shown = reach or (None if country is None else QUOTED.get(country))
    currencies = (*(DEBITED if Route.DIRECT in routes else ()), *(("USDT",) if Route.QUOTED in routes else ()))
    return Template(
        "pay",
        columns,
        tuple(_examples(country, reach, there)),
        tuple(pair for pair in AMOUNTS if there.issuperset(pair)),
        (*currencies, *([shown.currency] if shown else [])),
    )


def _direct(country: str | None, reach: Reach | None) -> Iterator[TemplateColumn]:
    left_out = set()
    choices: dict[str, tuple[str, ...]] = {"currency": DEBITED, "country": tuple(DIRECT)}
    settled = tuple(dict.fromkeys(each.currency for each in DIRECT.values()))
    if reach is not None and country is not None:
        choices |= {"country": (country,), "payout_method": reach.methods, "account_type": reach.account_types}
        choices |= {"bank_code": reach.banks, "wallet_code": reach.wallets, "currency": (*DEBITED, reach.currency)}
        choices |= {"document_type": (reach.document_type,) if reach.document_type else ()}
        settled = (reach.currency,)
        left_out |= set() if reach.wallets else {"wallet_code", "account_type"}
        left_out |= set() if reach.banks else {"bank_code", "bank_routing_code"}
    choices["settle_currency"] = settled
    open_lists = ("currency", "country", "settle_currency", "bank_code", "wallet_code", "document_type")
    for name in beneficiaries.DIRECT:
        if name not in left_out:
            column = column_of(Payout, name)
            yield replace(column, choices=choices.get(name) or column.choices, is_complete=name not in open_lists)


def _quoted(country: str | None) -> Iterator[TemplateColumn]:
    fiat = tuple(sorted(fiat_codes()))
    choices: dict[str, tuple[str, ...]] = {
        "receive_currency": fiat,
        "beneficiary_country": tuple(sorted(country_codes())) if country is None else (country,),
        "nationality": tuple(sorted(country_codes())),
        "clear_network": NETWORKS,
        "purpose_code": tuple(PURPOSES),
    }
    for model, names in _QUOTED_COLUMNS:
        for name in names:
            column = column_of(model, name)
            if name == "purpose_code":
                column = replace(column, note=f"{column.note} The list has the known codes, each with its meaning.")
            is_complete = name not in ("clear_network", "purpose_code")
            yield replace(column, choices=choices.get(name) or column.choices, is_complete=is_complete)
        if model is FiatPayoutQuote:
            most = "Where receive_amount is given: the most that the payment may debit, in pay_currency. Optional."
            yield TemplateColumn(beneficiaries.CEILING, most, is_amount=True)
    for name, note in BANK_FIELDS.items():
        yield TemplateColumn(FIELD + name, f"{note} Letter case of the column's name counts.")


def _together(name: str, by_route: Mapping[Route, TemplateColumn | None]) -> TemplateColumn:
    """One column for all routes of a template."""
    found = {route: column for route, column in by_route.items() if column is not None}
    if len(by_route) == 1:
        return next(iter(found.values()))
    columns = list(found.values())
    notes = [f"On {route} rows: {column.note}" for route, column in found.items()]
    notes += [f"Blank on {route} rows." for route, column in by_route.items() if column is None]
    needs = {Need.NO if column is None else column.need for column in by_route.values()}
    need = needs.pop() if len(needs) == 1 else Need.SOMETIMES if needs - {Need.NO} else Need.NO
    choices = tuple(dict.fromkeys(choice for column in columns for choice in column.choices))
    listed = all(column.choices for column in columns)
    return TemplateColumn(
        name,
        "\n".join(notes),
        need,
        choices if listed else (),
        all(column.is_complete for column in columns),
        columns[0].is_amount,
    )


def _examples(country: str | None, reach: Reach | None, there: set[str]) -> Iterator[Mapping[str, str]]:
    if country is None:
        rows = [_direct_example(1, "ID", DIRECT["ID"], "bank_transfer"), _quoted_example(2, "DE", "source")]
    elif reach is not None:
        methods = (reach.methods[0], reach.methods[-1])
        rows = [_direct_example(number, country, reach, method) for number, method in enumerate(methods, 1)]
    else:
        rows = [_quoted_example(1, country, "source"), _quoted_example(2, country, "dest")]
    for row in rows:
        yield {name: value for name, value in row.items() if name in there}


def _direct_example(number: int, country: str, reach: Reach, method: str) -> dict[str, str]:
    row = {
        "row_ref": f"{EXAMPLE}{number}",
        "route": Route.DIRECT.value,
        "amount": "1250" if number == 1 else "310.5",
        "currency": DEBITED[0],
        "settle_currency": reach.currency,
        "payout_method": method,
        "account_no": f"{EXAMPLE}048192635{number}",
        "account_name": "Example Person",
        "country": country,
        "phone": _PHONES[country],
        "email": "person@example.com",
        "remark": "November salary",
    }
    if method == "bank_transfer":
        row["bank_code"] = reach.banks[0]
    else:
        row |= {"wallet_code": reach.wallets[0], "account_type": reach.account_types[0]}
    if reach.document_type == "CPF":
        row |= {"account_no": f"{EXAMPLE}{_CPF}", "document_type": "CPF", "document_id": _CPF}
    elif reach.document_type:
        row |= {"document_type": reach.document_type, "document_id": "EXMP0001234"}
    return row


_CPF = "39053344705"

_PHONES = {
    "BR": "5511987654321",
    "ID": "6281200001111",
    "IN": "919876543210",
    "PH": "639171234567",
    "PK": "923001234567",
    "VN": "84901234567",
}


def _quoted_example(number: int, country: str, mode: str) -> dict[str, str]:
    shown = QUOTED.get(country, QUOTED["US"])
    row = {
        "row_ref": f"{EXAMPLE}{number}",
        "route": Route.QUOTED.value,
        "quote_mode": mode,
        "pay_currency": "USDT",
        "receive_currency": shown.currency,
        "beneficiary_country": country,
        "beneficiary_bank_id": shown.bank,
        "account_type": "PERSONAL" if mode == "source" else "ENTERPRISE",
        "beneficiary_relationship": "third",
        "clear_network": shown.network,
        "account_no": EXAMPLE + ("DE02120300000000202051" if country == "DE" else f"0048192635{number}"),
        "bank_name": "Example Bank",
        "address": "1 Example Street",
        "purpose_code": "30" if mode == "source" else "22",
        "description": "November",
    }
    row |= {"SWIFT": {"field.swift": "EXMPDEFFXXX"}, "ACH": {"field.routing_number": "011000015"}}.get(
        shown.network, {}
    )
    if mode == "source":
        person = {"nationality": country, "gender": "female", "date_of_birth": "1988-04-17"}
        return row | {"pay_amount": "100", "full_name": "Example Person"} | person
    return row | {"receive_amount": "90.5", "max_pay_amount": "110", "company_name": "Example Company"}


# --- the other sheets ----------------------------------------------------------------------------------------------


_OWN = {
    "row_ref": "Your own name of the payment, once in the file. Required.",
    "duplicate_ok": "Why this payment is meant although it looks like another one: a sentence. Optional.",
}


def _own(name: str) -> TemplateColumn:
    return TemplateColumn(name, _OWN[name], Need.YES if name == "row_ref" else Need.NO)


def _withdrawals() -> Template:
    columns = (_own("row_ref"), *(column_of(Withdraw, name) for name in withdrawals.SENT), _own("duplicate_ok"))
    addresses = ("TDBaAMzsQ3d7xqqgw8CWCzbAZGPdARHsMa", "0x00000000000000000000000000000000000e4a11")
    rows = tuple(
        {"row_ref": f"{EXAMPLE}{number}", "currency": currency, "address": EXAMPLE + address, "amount": amount}
        | {"customer_ref_id": "treasury", "description": "To the cold store"}
        for number, (currency, address, amount) in enumerate(
            zip(("USDT_TRC20", "ETH"), addresses, ("250.5", "0.75"), strict=True), 1
        )
    )
    return Template("withdraw", columns, rows, (("amount", "currency"),), ("USDT_TRC20", "ETH", "BTC"))


def _codes() -> Template:
    most = "The most that the payment may debit, in USDT. Optional."
    ceiling = TemplateColumn(beneficiaries.CEILING, most, is_amount=True)
    sent = {name: column_of(SubmitScanToPay, name) for name in qr_codes.SENT}
    sent["amount"] = replace(sent["amount"], need=Need.SOMETIMES, note="In THB; blank where the code says the amount.")
    where = "Where the service reports; blank where TREASURY_NOTIFY_URL is set."
    sent["notify_url"] = replace(sent["notify_url"], need=Need.SOMETIMES, note=where)
    columns = (_own("row_ref"), *sent.values(), ceiling, _own("duplicate_ok"))
    code, fixed = build_promptpay("0812345678"), build_promptpay("0812345678", Decimal("100.50"), "Example Shop")
    owner = {"user_xid": "owner-1", "notify_url": "https://hooks.example.com/payments"}
    rows = (
        {"row_ref": f"{EXAMPLE}1", "qrcode": EXAMPLE + code, "amount": "32", **owner},
        {"row_ref": f"{EXAMPLE}2", "qrcode": EXAMPLE + fixed, **owner},
    )
    return Template("scan-pay", columns, rows)


def _addresses() -> Template:
    columns = (_own("row_ref"), *(column_of(DepositAddress, name) for name in deposit_addresses_sheet.SENT))
    rows = tuple(
        {"row_ref": f"{EXAMPLE}{number}", "currency": currency, "customer_ref_id": "customer-1"}
        for number, currency in enumerate(("USDT_TRC20", "ETH"), 1)
    )
    return Template("addresses", columns, rows)


def _invoices() -> Template:
    reference = TemplateColumn("row_ref", "Your own number of the invoice, once in the file. Required.", Need.YES)
    notes = (f"The customer's {name.replace('_', ' ')}. Optional." for name in invoices.CUSTOMER.values())
    named = (TemplateColumn(name, note) for name, note in zip(invoices.CUSTOMER, notes, strict=True))
    columns = (reference, *(column_of(Pay, name) for name in invoices.SENT), *named)
    of = {"currency": "USDT_TRC20", "product_name": "Consulting", "customer_ref_id": "customer-1"}
    rows = tuple(
        {"row_ref": f"{EXAMPLE}{number}", "payment_method": method, "amount": f"{number}20.50", **of}
        for number, method in enumerate(("on_line", "on_chain"), 1)
    )
    return Template("collect", columns, rows, (("amount", "currency"),), ("USDT_TRC20", "USDT", "ETH"))


def _card_users() -> Template:
    models: Mapping[str, type[BaseModel]] = {"user_xid": CreateCardUserWithKycLink, "level_name": KycLink}
    plain = [name for name in card_users_sheet.LAYOUT.known if name not in card_users_sheet.IDENTITY]
    columns = (
        *(column_of(models.get(name, CreateCardUserWithKycLink), name) for name in plain),
        *(_of_identity(column, *place) for column, place in card_users_sheet.IDENTITY.items()),
    )
    rows = tuple(
        {"user_xid": f"{EXAMPLE}{number}", "email": f"user{number}@example.com", "user_name": f"user{number}"}
        | ({"level_name": "LEVEL-2"} if number == 2 else {})
        for number in (1, 2)
    )
    return Template("provision", columns, rows)


def _of_identity(column: str, name: str, member: str) -> TemplateColumn:
    """A column of identity data, which a row has whole or not at all."""
    models: Mapping[str, type[BaseModel]] = {
        "individual": Individual,
        "document": KycDocumentWithFace,
        "address": Address,
    }
    field = column_of(models[name], member)
    note = field.note.removesuffix(" Required.")
    if column in card_users_sheet.IMAGES:
        note = f"File of an image, JPEG or PNG, beside the sheet: {member} of the document."
    need = Need.SOMETIMES if field.need is Need.YES else Need.NO
    said = "Required with identity data." if field.need is Need.YES else "Optional."
    return replace(field, name=column, note=f"{note.removesuffix(' Optional.')} {said}", need=need)


def _balances() -> Template:
    notes = {
        "currency": "The asset, once in the file.",
        "available": "How much of it is available, zero or more.",
        "as_of": "When that was so, for example 2026-11-22T06:30:00Z (without a zone, in the policy's time_zone); "
        "left out, when the file was last changed.",
    }
    rows = ({"currency": f"{EXAMPLE}USDT", "available": "12000"}, {"currency": f"{EXAMPLE}BTC", "available": "0.42"})
    return Template("balances", _columns(balances_sheet.LAYOUT, notes, ("available",)), rows)


def _statement() -> Template:
    notes = {
        "order_no": "The service's number of the transaction, once in the file for each kind of order_type.",
        "currency": "The currency that was debited or credited.",
        "amount": "How much, in currency; this or order_amount is required.",
        "order_amount": "How much, in currency, as an export of the service names it.",
        "request_id": "Your reference of it.",
        "order_type": "What kind of transaction it is.",
        "status": "The service's number of its status, for example 99.",
        "fee": "Its fee, where the service shows one.",
        "fee_currency": "The currency of the fee; currency where it is left out.",
        "date": "The day that it was booked on, for example 2026-11-25; a time may follow.",
    }
    rows = tuple(
        {"order_no": f"{EXAMPLE}{number}", "currency": "USDT", "amount": f"{number}0.5", "status": "99"}
        for number in (1, 2)
    )
    return Template("statement", _columns(statement.LAYOUT, notes, ("amount", "order_amount")), rows)


_OTHERS = {
    "withdraw": _withdrawals,
    "scan-pay": _codes,
    "collect": _invoices,
    "addresses": _addresses,
    "provision": _card_users,
    "balances": _balances,
    "statement": _statement,
}


def _columns(layout: Layout, notes: Mapping[str, str], amounts: Sequence[str]) -> tuple[TemplateColumn, ...]:
    required = (layout.key, *layout.required)
    return tuple(
        TemplateColumn(
            name,
            f"{notes[name]} {'Required.' if name in required else 'Optional.'}",
            Need.YES if name in required else Need.NO,
            is_amount=name in amounts,
        )
        for name in layout.known
    )
