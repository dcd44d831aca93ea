"""How orders and users move on: acceptance, progress with the clock, endings, and what each does to the books."""

from decimal import Decimal

from treasury.sandbox.answers import Refusal
from treasury.sandbox.books import BookAccount, Entry
from treasury.sandbox.currencies import find_currency, share_fee
from treasury.sandbox.dice import draw
from treasury.sandbox.entities import ENDED, UNLISTED, CardUser, Ending, Order, OrderStatus, ending_of
from treasury.sandbox.faults import strikes_order
from treasury.sandbox.notices import announce, announce_user
from treasury.sandbox.world import World

PAYIN_SECONDS = 86_400.0
"""A checkout page is valid for one day (public fact 6, row 5)."""

REASONS = {Ending.FAILED: "beneficiary account rejected", Ending.CLOSED: "closed by compliance"}
FINAL = {Ending.SUCCESS: OrderStatus.SUCCESS, Ending.FAILED: OrderStatus.FAILED, Ending.CLOSED: OrderStatus.CLOSED}


def accept(world: World, order: Order) -> None:
    """Take an order in: hold what it costs (refused with 202203 when there is not enough) and set it going."""
    take(world, order)
    if order.ending is Ending.UNLISTED:
        order.status = UNLISTED
    elif order.status == OrderStatus.SUBMITTED:
        order.due_at = order.created_at + min(world.settings.processing_seconds, world.settings.settle_seconds)
    else:
        order.due_at = _final_at(world, order)
    world.save_order(order)


def take(world: World, order: Order) -> None:
    """Move what the order costs from available to hold: once, unless a fault makes a repeat act again."""
    if world.books.balance(BookAccount.AVAILABLE, order.currency) < order.debit:
        raise Refusal(202203, order.currency)
    world.books.move(BookAccount.AVAILABLE, BookAccount.HOLD, order.currency, order.debit)
    order.effects += 1


def act_again(world: World, order: Order) -> None:
    """The fault `repeat_acts`: the same order costs a second time, and goes the same way."""
    take(world, order)
    if order.status == OrderStatus.SUCCESS:
        _release(world, order, times=1)
    elif order.status in ENDED:
        world.books.move(BookAccount.HOLD, BookAccount.AVAILABLE, order.currency, order.debit)
    world.save_order(order)


def tick(world: World) -> None:
    """Bring everything whose time has come one step further, until nothing is due."""
    for entity in world.due():
        if isinstance(entity, CardUser):
            _step_user(world, entity)
        else:
            _step_order(world, entity)


def finish_payin(world: World, order: Order, ending: Ending, paid: Decimal | None = None) -> None:
    """A customer paid (credit the partner, less the fee), or never did.

    `paid`: another amount than the order's, which keeps its own (public fact 7.4, an underpaid checkout).
    """
    order.ending = ending
    if paid is not None:
        fee = share_fee(paid, find_currency(order.currency, 7002))
        order.debit, order.fee, order.credit = paid, fee, paid - fee
    if ending is Ending.SUCCESS:
        order.effects += 1
    _finish(world, order, world.now)


def open_payin(world: World, order: Order) -> None:
    """Take a pay-in: nothing moves until the customer pays; it closes after a day."""
    order.due_at = order.created_at + PAYIN_SECONDS
    world.save_order(order)


def await_audit(world: World, user: CardUser) -> None:
    """Identity data was handed in: the audit goes on with the clock, a step each third of the settle time."""
    user.due_at = world.now + world.settings.settle_seconds / 3
    world.save_user(user)


def _final_at(world: World, order: Order) -> float | None:
    return None if order.ending is Ending.PROCESSING else order.created_at + world.settings.settle_seconds


def _step_order(world: World, order: Order) -> None:
    at = order.due_at if order.due_at is not None else world.now
    if order.source is BookAccount.WORLD:
        order.reason = "not paid in time"
        finish_payin(world, order, Ending.CLOSED)
    elif order.status == OrderStatus.SUBMITTED:
        order.status = OrderStatus.PROCESSING
        order.due_at = _final_at(world, order)
        world.save_order(order)
        announce(world, order, at)
    elif order.status == OrderStatus.PROCESSING:
        _finish(world, order, at)
    else:
        _flip(world, order, at)


def _finish(world: World, order: Order, at: float) -> None:
    order.status = FINAL[order.ending]
    order.finished_at = at
    order.due_at = None
    order.reason = order.reason or REASONS.get(order.ending, "")
    if order.ending is Ending.SUCCESS:
        _release(world, order, times=order.effects)
        _add_chain_details(world, order)
        if order.source is BookAccount.HOLD and strikes_order(world.settings, "flip_final", order.request_id):
            order.due_at = at + world.settings.flip_seconds
    else:
        _give_back(world, order)
    world.save_order(order)
    announce(world, order, at)


def _release(world: World, order: Order, times: int) -> None:
    """Success: the debit leaves its source, the credit reaches its target, the fee stays; all by way of the desk."""
    for account, currency, amount in (
        (order.source, order.currency, -order.debit),
        (BookAccount.FEES, order.fee_currency, order.fee),
        (order.target, order.credit_currency, order.credit),
    ):
        if amount:
            world.books.post(
                Entry(account, currency, amount * times), Entry(BookAccount.DESK, currency, -amount * times)
            )


def _give_back(world: World, order: Order) -> None:
    if order.source is BookAccount.HOLD:
        world.books.move(BookAccount.HOLD, BookAccount.AVAILABLE, order.currency, order.debit * order.effects)


def _flip(world: World, order: Order, at: float) -> None:
    """The fault `flip_final`: what had succeeded fails after all, unless the partner has spent what it brought."""
    order.due_at = None
    spent = world.books.balance(order.target, order.credit_currency) < order.credit * order.effects
    if not spent:
        _release(world, order, times=-order.effects)
        _give_back(world, order)
        order.status = OrderStatus.FAILED
        order.reason = "returned by the receiving bank"
        order.finished_at = at
        announce(world, order, at)
    world.save_order(order)


def _add_chain_details(world: World, order: Order) -> None:
    """Return what a network adds to a finished withdrawal (document, Transaction record, `metadata`)."""
    if order.target is BookAccount.WORLD:
        order.metadata |= {
            "txnHash": "".join(f"{draw(world.settings.seed, half, order.order_no):032x}" for half in "ab"),
            "blockHeight": str(60_000_000 + int(order.created_at) // 3 % 10_000_000),
            "numOfConfirms": "20",
            "networkFee": "0",
            "networkCurrency": order.currency,
        }


def _step_user(world: World, user: CardUser) -> None:
    """0 not set -> 1 waiting -> 2 in audit -> 3 passed or 4 refused, by the ending of the document number."""
    ending = ending_of(user.document_number or "")
    at = user.due_at if user.due_at is not None else world.now
    stays = user.kyc_status == "1" and ending is Ending.PROCESSING
    if user.kyc_status in ("0", "1"):
        user.kyc_status = "1" if user.kyc_status == "0" else "2"
        user.due_at = None if stays else at + world.settings.settle_seconds / 3
    else:
        judge(world, user, "1" if ending is Ending.SUCCESS else None, at)
        return
    world.save_user(user)


def judge(world: World, user: CardUser, level: str | None, at: float) -> None:
    """The audit is over: passed at this level, or refused."""
    user.kyc_status = "4" if level is None else "3"
    user.kyc_level = level or user.kyc_level
    user.due_at = None
    world.save_user(user)
    announce_user(world, user, at)
