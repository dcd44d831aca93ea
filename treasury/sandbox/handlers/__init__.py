"""One handler an operation: what the service does with a request whose fields hold, and the data it answers."""

from collections.abc import Callable, Mapping
from typing import Any

from treasury.sandbox.handlers import (
    card_users,
    conversion,
    fiat_payouts,
    funds,
    payins,
    payouts,
    queries,
    scan_to_pay,
    supports,
    withdrawals,
)
from treasury.sandbox.world import World

Handler = Callable[[World, Any], Mapping[str, Any] | None]
"""Takes the world and the request, answers the reply's `data`, raises `Refusal`."""

HANDLERS: Mapping[str, Handler] = {
    "deposit_address": withdrawals.deposit_address,
    "verify_deposit_address": withdrawals.verify_deposit_address,
    "withdraw": withdrawals.withdraw,
    "query_transaction": queries.query_transaction,
    "pay": payins.pay,
    "payout": payouts.payout,
    "create_card_user": card_users.create,
    "create_card_user_with_kyc_link": card_users.create_with_kyc_link,
    "kyc_link": card_users.kyc_link,
    "query_card_user": card_users.query,
    "upload_kyc": card_users.upload_kyc,
    "change_card_user_email": card_users.change_email,
    "submit_scan_to_pay": scan_to_pay.submit,
    "scan_to_pay_info": scan_to_pay.info,
    "conversion_rate": conversion.rate,
    "conversion_quote": conversion.quote,
    "conversion_execute": conversion.execute,
    "fiat_payout_quote": fiat_payouts.quote,
    "create_fiat_payout": fiat_payouts.create,
    "query_fiat_payout": queries.query_fiat_payout,
    "supported_countries": supports.countries,
    "supported_banks": supports.banks,
    "supported_networks": supports.networks,
    "supported_fields": supports.fields,
    "remittance_purposes": supports.purposes,
    "partner_balance": funds.balance,
    "estimate_fee": funds.estimate_fee,
    "trade_rate": funds.trade_rate,
    "payout_channels": supports.payout_channels,
}
