"""The catalogue: every operation by name. Client, sandbox, commands, tasks, docs and contract tests derive from it."""

from collections.abc import Mapping
from typing import Any

from treasury.errors import InputError
from treasury.provider import card_users, conversion, fiat_payouts, funds, orders, scan_to_pay
from treasury.provider.operation import Operation

DOCUMENT: tuple[type[Operation[Any]], ...] = (
    orders.DepositAddress,
    orders.QueryTransaction,
    orders.Withdraw,
    orders.VerifyDepositAddress,
    orders.Pay,
    orders.Payout,
    card_users.CreateCardUser,
    card_users.CreateCardUserWithKycLink,
    card_users.KycLink,
    card_users.QueryCardUser,
    card_users.UploadKyc,
    card_users.ChangeCardUserEmail,
    scan_to_pay.SubmitScanToPay,
    scan_to_pay.ScanToPayInfo,
    conversion.ConversionRate,
    conversion.ConversionQuote,
    conversion.ConversionExecute,
    fiat_payouts.FiatPayoutQuote,
)
"""The 18 operations of the document, in its order."""

PUBLIC_FACTS: tuple[type[Operation[Any]], ...] = (
    fiat_payouts.CreateFiatPayout,
    fiat_payouts.QueryFiatPayout,
    fiat_payouts.SupportedCountries,
    fiat_payouts.SupportedBanks,
    fiat_payouts.SupportedNetworks,
    fiat_payouts.SupportedFields,
    fiat_payouts.RemittancePurposes,
    funds.PartnerBalance,
    funds.EstimateFee,
    funds.TradeRate,
    funds.PayoutChannels,
)
"""Operations the document leaves out and the flows need; each rests on a public fact."""

CATALOGUE: Mapping[str, type[Operation[Any]]] = {
    operation.operation_name(): operation for operation in (*DOCUMENT, *PUBLIC_FACTS)
}


def _check_complete() -> None:
    for module in (orders, card_users, scan_to_pay, conversion, fiat_payouts, funds):
        for name, value in vars(module).items():
            is_operation = isinstance(value, type) and issubclass(value, Operation) and hasattr(value, "path")
            if is_operation and value not in CATALOGUE.values():
                raise TypeError(f"{name} of {module.__name__} is not in the catalogue (docs/adding-an-operation.md)")


_check_complete()


def find_operation(name: str) -> type[Operation[Any]]:
    """The operation of this name, class name or path. Raises `InputError` that lists near names."""
    wanted = name.strip().replace("-", "_")
    for known, operation in CATALOGUE.items():
        if wanted in (known, operation.__name__) or name.strip("/") in (operation.path.strip("/"), operation.path[4:]):
            return operation
    import difflib

    near = difflib.get_close_matches(wanted, CATALOGUE, n=3, cutoff=0.4)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise InputError(f"no operation called {name}{hint} (`treasury call --list` prints all)")
