"""One handler an operation: what the service does with a request whose fields hold, and the data it answers."""

from collections.abc import Callable, Mapping
from typing import Any

from treasury.sandbox.forms import card_users as cards
from treasury.sandbox.forms import fiat_payouts as fiat
from treasury.sandbox.forms import orders as order
from treasury.sandbox.forms import trades
from treasury.sandbox.forms.form import Request
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

HANDLERS: Mapping[type[Request], Handler] = {
    order.DepositAddress: withdrawals.deposit_address,
    order.VerifyDepositAddress: withdrawals.verify_deposit_address,
    order.Withdraw: withdrawals.withdraw,
    order.QueryTransaction: queries.query_transaction,
    order.Pay: payins.pay,
    order.Payout: payouts.payout,
    cards.CreateCardUser: card_users.create,
    cards.CreateCardUserWithKycLink: card_users.create_with_kyc_link,
    cards.KycLink: card_users.kyc_link,
    cards.QueryCardUser: card_users.query,
    cards.UploadKyc: card_users.upload_kyc,
    cards.ChangeCardUserEmail: card_users.change_email,
    trades.SubmitScanToPay: scan_to_pay.submit,
    trades.ScanToPayInfo: scan_to_pay.info,
    trades.ConversionRate: conversion.rate,
    trades.ConversionQuote: conversion.quote,
    trades.ConversionExecute: conversion.execute,
    fiat.FiatPayoutQuote: fiat_payouts.quote,
    fiat.CreateFiatPayout: fiat_payouts.create,
    fiat.QueryFiatPayout: queries.query_fiat_payout,
    fiat.SupportedCountries: supports.countries,
    fiat.SupportedBanks: supports.banks,
    fiat.SupportedNetworks: supports.networks,
    fiat.SupportedFields: supports.fields,
    fiat.RemittancePurposes: supports.purposes,
    trades.PartnerBalance: funds.balance,
    trades.EstimateFee: funds.estimate_fee,
    trades.TradeRate: funds.trade_rate,
    trades.PayoutChannels: supports.payout_channels,
}
