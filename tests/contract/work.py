"""The documented operations as work: which command, flow and sheet leads to each, and what comes of it.

`docs/operations.md` shows it; tests hold each cell to what is there.
"""

from typing import NamedTuple

PROVISION = ("provision", "provision_card_users", "provision", "--dry-run", "card_users.csv", "every card user")


class Work(NamedTuple):
    """The work that leads to an operation. Empty cells have their reason in `reason`."""

    command: str
    flow: str = ""
    sheet: str = ""
    preview: str = ""
    results: str = ""
    reconciled: str = ""
    reason: str = ""


PREVIEW = "plan.html"
ORDERS = "every order, by class"
RECEIPTS = "every receipt, and its balance account"
USERS = "every card user"

WORK: dict[str, Work] = {
    "deposit_address": Work(
        "addresses",
        "issue_deposit_addresses",
        "addresses",
        "--dry-run",
        "addresses.csv",
        reason="an address holds nothing; what arrives there is a deposit",
    ),
    "query_transaction": Work("reconcile", "reconcile_transactions", results="orders.csv", reason="it is the question"),
    "withdraw": Work("withdraw", "withdraw_assets", "withdraw", PREVIEW, "results.csv", ORDERS),
    "verify_deposit_address": Work("withdraw", "withdraw_assets", "withdraw", PREVIEW, reason="it is asked for a plan"),
    "pay": Work("collect", "collect_payments", "collect", "--dry-run", "results.csv", RECEIPTS),
    "payout": Work("pay", "pay_beneficiaries", "pay", PREVIEW, "results.csv", ORDERS),
    "create_card_user": Work(*PROVISION),
    "create_card_user_with_kyc_link": Work(*PROVISION),
    "kyc_link": Work(*PROVISION),
    "query_card_user": Work("reconcile", "reconcile_transactions", reconciled=USERS, reason="it is the question"),
    "upload_kyc": Work(*PROVISION),
    "change_card_user_email": Work(*PROVISION),
    "submit_scan_to_pay": Work("scan-pay", "pay_qr_codes", "scan-pay", PREVIEW, "results.csv", ORDERS),
    "scan_to_pay_info": Work("scan-pay", "pay_qr_codes", "scan-pay", PREVIEW, reason="it is asked for a plan"),
    "conversion_rate": Work("rebalance", "rebalance_treasury", preview=PREVIEW, reason="it is asked for a plan"),
    "conversion_quote": Work("rebalance", "rebalance_treasury", preview=PREVIEW, reason="the execution has the order"),
    "conversion_execute": Work(
        "rebalance", "rebalance_treasury", "", PREVIEW, "results.csv", ORDERS, "the policy says what is held"
    ),
    "fiat_payout_quote": Work(
        "pay", "pay_beneficiaries", "pay", PREVIEW, "results.csv", reason="the payout has the order"
    ),
    "create_fiat_payout": Work("pay", "pay_beneficiaries", "pay", PREVIEW, "results.csv", ORDERS),
}
"""Documented operation -> the work that leads to it; every operation is a `call` and a task besides."""
