"""The classes of a reconciliation: every way in which the two sides of an order, or of a balance, relate."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Answer(StrEnum):
    """The service's answer to a question."""

    FOUND = "found"
    ABSENT = "absent"
    FAILED = "failed"


class Verdict(StrEnum):
    """The one word of a reconciliation, worst first."""

    INCOMPLETE = "incomplete"
    BREAKS = "breaks"
    WARNINGS = "warnings"
    PENDING = "pending"
    RECONCILED = "reconciled"


@dataclass(frozen=True)
class Class:
    """One way in which the two sides relate. `verdict`: the verdict that a single order of this class causes."""

    name: str
    verdict: Verdict
    meaning: str
    next_action: str


ABOVE_BOUND = "above_bound"
CHANGED = "changed_in_ledger"

CLASSES: tuple[Class, ...] = (
    Class("query_failed", Verdict.INCOMPLETE, "the service could not be asked", "run the reconciliation again"),
    Class(
        "other_record",
        Verdict.BREAKS,
        "the service answered with the record of another order",
        "ask the service with order number and request id: its answer says nothing about this order",
    ),
    Class(
        "duplicate_effect",
        Verdict.BREAKS,
        "the service shows more than one payment for what was meant once",
        "ask the service for the second one back; send nothing more to this payee until it is cleared up",
    ),
    Class(
        "orphan_success",
        Verdict.BREAKS,
        "the service paid what the ledger had as not paid",
        "it was paid: do not pay it again; accept it once you know why (`treasury accept`)",
    ),
    Class(
        "missing_in_ledger",
        Verdict.BREAKS,
        "the service's statement shows a payment that this ledger never meant",
        "find out who made it: another ledger, another program, or nobody of yours",
    ),
    Class(
        "missing_at_service",
        Verdict.BREAKS,
        "the service does not know what it had accepted",
        "ask the service with order number and request id",
    ),
    Class(
        "currency_mismatch", Verdict.BREAKS, "the two sides name different currencies", "ask the service; do not resend"
    ),
    Class("amount_mismatch", Verdict.BREAKS, "the two sides name different amounts", "ask the service; do not resend"),
    Class(
        "reversed_after_final",
        Verdict.BREAKS,
        "the service changed its mind after a final status",
        "find out why; accept it once the money is where it belongs (`treasury accept`)",
    ),
    Class(
        "status_conflict",
        Verdict.BREAKS,
        "the two sides cannot both be right about where it stands",
        "ask the service; do not resend",
    ),
    Class(
        "unknown_outcome",
        Verdict.BREAKS,
        "sent, and nobody knows yet whether it acted",
        "do not pay it by hand: start its run, or send the call, again to ask at once; the nightly reconciliation asks "
        "in any case; once you know how it ended: `treasury resolve`",
    ),
    Class(
        "partial",
        Verdict.BREAKS,
        "less arrived than was sent less its fee",
        "ask the service for the rest",
    ),
    Class(
        ABOVE_BOUND,
        Verdict.BREAKS,
        "more was debited than its plan allowed for, fee included",
        "ask the service why; nothing more of its run is sent until somebody accepts it (`treasury accept`)",
    ),
    Class(
        "missing_in_statement",
        Verdict.BREAKS,
        "the service says that it is paid, and its statement does not show it among others like it",
        "ask the service which one is right, with order number and request id",
    ),
    Class(
        CHANGED,
        Verdict.BREAKS,
        "somebody changed in the database what the report adds up",
        "find out who writes the database; compare with the service's own list, then accept it (`treasury accept`)",
    ),
    Class(
        "balance_gap",
        Verdict.BREAKS,
        "more left the balance than the orders of this ledger explain",
        "find what left: another program, a fee, a payment made by hand; it stays until it is found or accepted",
    ),
    Class(
        "unclassified_status",
        Verdict.WARNINGS,
        "the service shows a status that is not in the published list",
        "none yet: it counts as not final",
    ),
    Class(
        "fee_variance",
        Verdict.WARNINGS,
        "the fee differs from the quoted one by more than the tolerance",
        "compare the fee with the agreed terms",
    ),
    Class(
        "rate_variance",
        Verdict.WARNINGS,
        "the rate differs from the quoted one by more than the tolerance",
        "compare the rate with the quote",
    ),
    Class(
        "statement_variance",
        Verdict.WARNINGS,
        "the service's statement shows another fee, or a date that is not of the order's time",
        "compare the line with the order",
    ),
    Class(
        "paid_otherwise",
        Verdict.WARNINGS,
        "a customer paid another amount than the invoice asks for",
        "ask for the rest with another invoice, or give back what is too much; then accept it (`treasury accept`)",
    ),
    Class(
        "likely_paid",
        Verdict.WARNINGS,
        "a deposit looks like the payment of an invoice, by amount and time or by address alone",
        "look whether it is: if so, accept it (`treasury accept`); if not, ask the customer",
    ),
    Class(
        "paid_late",
        Verdict.WARNINGS,
        "a customer paid an invoice after it had ended",
        "look whether the price still holds and the goods are still there; then accept it (`treasury accept`)",
    ),
    Class(
        "unpaid_invoice",
        Verdict.WARNINGS,
        "an invoice has ended, or is older than it may be, and nothing came",
        "ask the customer; once the service shows that it ended, make a new one: for one of a sheet, "
        "`treasury collect` with its sheet and run key again writes its row into `remaining.csv`; then accept it "
        "(`treasury accept`)",
    ),
    Class(
        "unexpected_deposit",
        Verdict.WARNINGS,
        "a deposit came that no invoice and no address of a customer explains, or a pay-in that nobody here asked for",
        "find out whose it is; then accept it (`treasury accept`)",
    ),
    Class(
        "kyc_refused",
        Verdict.WARNINGS,
        "the identity check of a card user was refused",
        "find out why; `treasury provision FILE` with their identity data, or a new link, starts it again",
    ),
    Class(
        "kyc_unused",
        Verdict.WARNINGS,
        "a card user has not handed in identity data for days",
        "remind them: `treasury provision FILE` gets a new link",
    ),
    Class(
        "pending_late",
        Verdict.WARNINGS,
        "on its way, or not sent yet, for longer than is due",
        "ask the service; a run that was not finished is started again",
    ),
    Class(
        "unreadable_metadata",
        Verdict.WARNINGS,
        "the service's details of it cannot be read",
        "none: its amounts and status were read",
    ),
    Class(
        "opening",
        Verdict.WARNINGS,
        "balance accounts were opened with what the service showed, and nobody has said that it is right",
        "compare it with the service's own figures of that time, and accept it (`treasury accept`)",
    ),
    Class(
        "unexplained_inflow",
        Verdict.WARNINGS,
        "more reached the balance than the orders of this ledger explain",
        "usual for deposits and pay-ins: compare with the service's list of them, and accept it (`treasury accept`)",
    ),
    Class(
        "in_progress",
        Verdict.PENDING,
        "on its way, or not sent yet",
        "none: it is followed; what was not sent waits for its run to be started again",
    ),
    Class(
        "quote_expired_unused",
        Verdict.RECONCILED,
        "a quote that was never confirmed: nothing came of it",
        "none",
    ),
    Class("matched", Verdict.RECONCILED, "both sides agree", "none"),
)
"""Every class, by priority: an order gets the first that applies."""

BY_NAME: Mapping[str, Class] = {each.name: each for each in CLASSES}

PRIORITY: Mapping[str, int] = {each.name: place for place, each in enumerate(CLASSES)}

BALANCE_CLASSES = ("balance_gap", "unexplained_inflow")
"""Classes of the lots of balance accounts."""

INVOICE_CLASSES = ("paid_otherwise", "likely_paid", "paid_late", "unpaid_invoice")
"""Classes of invoices: their differences are what customers owe, or are owed."""

UNREMARKABLE = ("in_progress", "quote_expired_unused", "matched")
"""Classes that are no breaks."""


def verdict_of(names: Iterable[str], *, incomplete: bool = False) -> Verdict:
    """The first verdict that any of these classes calls for; `incomplete` when something else could not be read."""
    called = {BY_NAME[name].verdict for name in names}
    if incomplete:
        called.add(Verdict.INCOMPLETE)
    return next((verdict for verdict in Verdict if verdict in called), Verdict.RECONCILED)
