"""Tables of scan-to-pay and conversion (document, endpoints 13-17), and of the treasury helpers (public fact 5.10)."""

from decimal import Decimal

from tests.interface.forms.form import Request, may, must
from tests.interface.forms.kinds import AMOUNT, SIDE, SYMBOL, TEXT, one_of, sized


class SubmitScanToPay(Request):
    """Document, endpoint 13, and Limits."""

    name = "submit_scan_to_pay"
    path = "/v1/scanPay/submit"
    reference = "request_id"
    acts = True

    request_id: str = must(TEXT)
    user_xid: str = must(sized(0, 20))
    qrcode: str = must(TEXT)
    amount: Decimal = must(AMOUNT)
    notify_url: str = must(TEXT)


class ScanToPayInfo(Request):
    """Document, endpoint 14."""

    name = "scan_to_pay_info"
    path = "/v1/scanPay/info"

    qrcode: str = must(TEXT)
    amount: Decimal | None = may(AMOUNT)


class ConversionRate(Request):
    """Document, endpoint 15."""

    name = "conversion_rate"
    path = "/v1/conversion/rate"

    symbol: str = must(SYMBOL)
    side: str = must(SIDE)


class ConversionQuote(Request):
    """Document, endpoint 16."""

    name = "conversion_quote"
    path = "/v1/conversion/quote"
    reference = "xid"
    acts = True

    symbol: str = must(SYMBOL)
    amount: Decimal = must(AMOUNT)
    currency: str = must(TEXT)
    side: str = must(SIDE)
    xid: str = must(TEXT)


class ConversionExecute(Request):
    """Document, endpoint 17."""

    name = "conversion_execute"
    path = "/v1/conversion/execute"
    reference = "quote_id"
    acts = True

    quote_id: str = must(TEXT, "quoteId")


class PartnerBalance(Request):
    """Public fact 5.10."""

    name = "partner_balance"
    path = "/v1/balance/partner"

    currency: str = must(TEXT)


class EstimateFee(Request):
    """Public fact 5.10."""

    name = "estimate_fee"
    path = "/v1/fee/estimate"

    currency: str = must(TEXT)
    amount: Decimal = must(AMOUNT)


class TradeRate(Request):
    """Public fact 5.10."""

    name = "trade_rate"
    path = "/v1/rate/queryTradeRate"

    base_currency: str = must(TEXT, "baseCurrency")
    quote_currency: str = must(TEXT, "quoteCurrency")
    symbol_trade_type: str | None = may(one_of("buy", "sell"), "symbolTradeType")
    order_type: str | None = may(TEXT, "orderType")


class PayoutChannels(Request):
    """Public fact 5.10."""

    name = "payout_channels"
    path = "/v1/fee/queryPayoutChannel"

    country: str = must(TEXT)
    currency: str = must(TEXT)
