"""The sandbox's own tables of every request: fields, kinds and conditions, from the document and the public facts."""

from collections.abc import Mapping

from tests.interface.forms import card_users as cards
from tests.interface.forms import fiat_payouts as fiat
from tests.interface.forms import orders, trades
from tests.interface.forms.form import Request

REQUESTS: Mapping[str, type[Request]] = {
    form.name: form
    for form in (
        orders.DepositAddress,
        orders.QueryTransaction,
        orders.Withdraw,
        orders.VerifyDepositAddress,
        orders.Pay,
        orders.Payout,
        cards.CreateCardUser,
        cards.CreateCardUserWithKycLink,
        cards.KycLink,
        cards.QueryCardUser,
        cards.UploadKyc,
        cards.ChangeCardUserEmail,
        trades.SubmitScanToPay,
        trades.ScanToPayInfo,
        trades.ConversionRate,
        trades.ConversionQuote,
        trades.ConversionExecute,
        fiat.FiatPayoutQuote,
        fiat.CreateFiatPayout,
        fiat.QueryFiatPayout,
        fiat.SupportedCountries,
        fiat.SupportedBanks,
        fiat.SupportedNetworks,
        fiat.SupportedFields,
        fiat.RemittancePurposes,
        trades.PartnerBalance,
        trades.EstimateFee,
        trades.TradeRate,
        trades.PayoutChannels,
    )
}
"""Name -> table of every request that the sandbox answers."""
