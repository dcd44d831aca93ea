"""Pay-ins on their way out: each is expected before it leaves, for its answer may be lost."""

from collections.abc import Iterator
from contextlib import contextmanager

from treasury.concurrency.crash_points import crash_point
from treasury.errors import NotConnected, Refused
from treasury.ledger.snapshots import expect_receipt, expected_receipts
from treasury.money import canonical
from treasury.payments.desk import Desk
from treasury.provider.orders import Pay
from treasury.provider.refusals import RefusalKind


@contextmanager
def expecting(desk: Desk, payin: Pay, **said: str) -> Iterator[None]:
    """Expect what a pay-in brings while it is sent, and from then on; `said`: what else is kept of it.

    A new one that never left, or that the service refused for good, is expected no more.
    """
    is_new = payin.request_id not in expected_receipts(desk.ledger, [payin.request_id])
    expect_receipt(desk.ledger, payin.request_id, receipt_of(payin, **said))
    crash_point("receipt.expected")
    try:
        yield
    except (NotConnected, Refused) as error:
        is_over = isinstance(error, NotConnected) or desk.account.rules.kind_of(error) is RefusalKind.FINAL
        if is_new and is_over:
            expect_receipt(desk.ledger, payin.request_id, None)
        raise


def receipt_of(payin: Pay, **said: str) -> dict[str, str]:
    """A pay-in as it is expected."""
    return {"currency": payin.currency, "amount": canonical(payin.amount), **said}
