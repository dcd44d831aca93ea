"""Every operation of the catalogue as a task, for flows of one's own: `from tasks.operations import conversion_rate`.

A task takes the operation, or its fields by their wire names, and optionally the name of an account block. What reads
or creates returns the whole answer. What moves money goes through ledger and submission, at most once for its
reference: `Settled` and `InProgress` return the order's result row; what is held, refused, cancelled or not known fails
in a state of that name and raises `NeedsAttention`, whose `summary` is the row. Only reads are retried by Prefect, and
only they may be cached.
"""

import logging
from collections.abc import Mapping
from typing import Any, cast

from prefect import Task
from prefect.cache_policies import NO_CACHE

from blocks.desk import open_desk
from tasks.outcomes import state_of_order, unless_rejected
from tasks.stated import StatedTask
from treasury.call.calls import send_operation, submit_operation, warnings_of
from treasury.errors import InputError
from treasury.provider.card_users import (
    ChangeCardUserEmail,
    CreateCardUser,
    CreateCardUserWithKycLink,
    KycLink,
    QueryCardUser,
    UploadKyc,
)
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.conversion import ConversionExecute, ConversionQuote, ConversionRate
from treasury.provider.fiat_payouts import (
    CreateFiatPayout,
    FiatPayoutQuote,
    QueryFiatPayout,
    RemittancePurposes,
    SupportedBanks,
    SupportedCountries,
    SupportedFields,
    SupportedNetworks,
)
from treasury.provider.funds import EstimateFee, PartnerBalance, PayoutChannels, TradeRate
from treasury.provider.operation import Effect, Operation
from treasury.provider.orders import (
    DepositAddress,
    Pay,
    Payout,
    QueryTransaction,
    VerifyDepositAddress,
    Withdraw,
)
from treasury.provider.pacing import TASK
from treasury.provider.scan_to_pay import ScanToPayInfo, SubmitScanToPay
from treasury.reports.results import result_row

LOG = logging.getLogger("treasury")


def as_task(operation: type[Operation[Any]]) -> Task[..., Mapping[str, Any]]:
    """The task of an operation; its retries follow from its effect. Raises for one that the catalogue does not have."""

    def send(fields: Mapping[str, Any] | Operation[Any], account: str | None = None) -> Any:
        return _send(operation, fields, account)

    def name(parameters: dict[str, Any]) -> str:
        return f"{operation.operation_name()} {_reference(parameters['fields'], operation)}".rstrip()

    send.__name__ = send.__qualname__ = operation.operation_name()  # Prefect makes the task's key of it
    send.__doc__ = operation.__doc__
    return StatedTask(
        send,
        name=operation.operation_name(),
        cache_policy=NO_CACHE,
        retry_condition_fn=unless_rejected,
        tags={operation.effect.value.replace(" ", "-")},
        task_run_name=cast(Any, name),  # Prefect's own type of it fits no function
        **_by_effect(operation),
    )


def _by_effect(operation: type[Operation[Any]]) -> dict[str, Any]:
    if CATALOGUE.get(operation.operation_name()) is not operation:
        raise AssertionError(f"{operation.__name__} is not in treasury/provider/catalogue.py, which the ledger reads")
    if operation.effect is Effect.READS:
        return {"reads": True, "retries": TASK.attempts - 1, "retry_delay_seconds": TASK.first_pause}
    return {"retries": 0, "retry_delay_seconds": 0}


def _send(operation: type[Operation[Any]], fields: object, account: str | None) -> Any:
    """Send an operation, or one of these fields. Raises `InputError` for anything else, another operation included."""
    if not isinstance(fields, operation | Mapping):
        takes = f"{operation.operation_name()} takes a {operation.__name__} or its fields"
        raise InputError(f"{takes}, not a {type(fields).__name__}; nothing was sent")
    asked = operation(**fields) if isinstance(fields, Mapping) else fields
    if operation.effect is Effect.MOVES_MONEY:
        for warning in warnings_of(asked):
            LOG.warning("%s %s: %s", operation.operation_name(), asked.reference_value, warning)
        return state_of_order(result_row(submit_operation(open_desk(account), asked)))
    return send_operation(open_desk(account), asked)


def _reference(fields: object, operation: type[Operation[Any]]) -> str:
    """The value of the reference field, as it is given; empty where there is none."""
    if isinstance(fields, Operation):
        return fields.reference_value or ""
    return str(fields.get(operation.reference, "")) if isinstance(fields, Mapping) else ""


deposit_address = as_task(DepositAddress)
query_transaction = as_task(QueryTransaction)
withdraw = as_task(Withdraw)
verify_deposit_address = as_task(VerifyDepositAddress)
pay = as_task(Pay)
payout = as_task(Payout)
create_card_user = as_task(CreateCardUser)
create_card_user_with_kyc_link = as_task(CreateCardUserWithKycLink)
kyc_link = as_task(KycLink)
query_card_user = as_task(QueryCardUser)
upload_kyc = as_task(UploadKyc)
change_card_user_email = as_task(ChangeCardUserEmail)
submit_scan_to_pay = as_task(SubmitScanToPay)
scan_to_pay_info = as_task(ScanToPayInfo)
conversion_rate = as_task(ConversionRate)
conversion_quote = as_task(ConversionQuote)
conversion_execute = as_task(ConversionExecute)
fiat_payout_quote = as_task(FiatPayoutQuote)
create_fiat_payout = as_task(CreateFiatPayout)
query_fiat_payout = as_task(QueryFiatPayout)
supported_countries = as_task(SupportedCountries)
supported_banks = as_task(SupportedBanks)
supported_networks = as_task(SupportedNetworks)
supported_fields = as_task(SupportedFields)
remittance_purposes = as_task(RemittancePurposes)
partner_balance = as_task(PartnerBalance)
estimate_fee = as_task(EstimateFee)
trade_rate = as_task(TradeRate)
payout_channels = as_task(PayoutChannels)

OPERATION_TASKS: Mapping[str, Task[..., Mapping[str, Any]]] = {
    name: value for name, value in globals().items() if isinstance(value, Task)
}


def _check_complete() -> None:
    """Raise when an operation of the catalogue has no task here, or a task here has another name."""
    for name, operation in CATALOGUE.items():
        if name not in OPERATION_TASKS:
            line = f"{name} = as_task({operation.__name__})"
            raise AssertionError(f"{operation.__name__} has no task: add `{line}` to tasks/operations.py")


_check_complete()
