"""Notifications: written at each change of status, signed when they leave, tried again on the sandbox's clock."""

import ipaddress
import json
from collections.abc import Mapping
from typing import Any

import httpx

from treasury.money import format_amount
from treasury.sandbox.answers import json_bytes
from treasury.sandbox.entities import CardUser, Notification, Order, OrderStatus
from treasury.sandbox.faults import strikes_order
from treasury.sandbox.signatures import Signatures
from treasury.sandbox.world import World

ATTEMPT_MINUTES = (0, 2, 4, 8, 16, 32, 64)
"""When attempts are made, counted from the change (public fact 4, retry plan)."""

LATE_SECONDS = 60
"""How late a notification comes that `notice_reordered` strikes."""

ON_THEIR_WAY = (OrderStatus.SUBMITTED, OrderStatus.PROCESSING)

PRODUCTS: Mapping[str, str] = {"extract": "m_extract_api"}
"""Order type -> product code; the public facts show only this one."""


def is_loopback(url: str) -> bool:
    """Tell whether this address is on this machine: the sandbox sends nothing anywhere else."""
    try:
        parsed = httpx.URL(url)  # read by the library that will send, so that both see the same host
        return parsed.scheme == "http" and (parsed.host == "localhost" or ipaddress.ip_address(parsed.host).is_loopback)
    except (httpx.InvalidURL, ValueError):
        return False


def announce(world: World, order: Order, at: float) -> None:
    """The status of an order changed: write the notification, due at once."""
    _write(world, order.notify_url or world.settings.notify_url, _body(world, order), at)


def announce_user(world: World, user: CardUser, at: float) -> None:
    """An identity check is over: write the notification, where this service sends any (public fact 2.4: no such event
    is documented). Its shape, and `userId`, are those of card notifications (public fact 4.2)."""
    if world.settings.behaviour.kyc_notified:
        said = {"userId": int(user.user_id), "kycStatus": user.kyc_status, "kycLevel": user.kyc_level}
        _write(world, world.settings.notify_url, {"type": "KYC_STATUS", "data": said}, at)


def _write(world: World, url: str | None, body: dict[str, Any], at: float) -> None:
    if url is None:
        return
    state = "waiting" if is_loopback(url) else "undeliverable"
    state = "lost" if _strikes(world, "notice_lost", body) else state
    is_late = body.get("status") in ON_THEIR_WAY and _strikes(world, "notice_reordered", body)
    for is_forged in (True, False) if _strikes(world, "notice_forged", body) else (False,):
        due_at = at + LATE_SECONDS * is_late if state == "waiting" else None
        number = len(world.notifications)
        world.save_notification(Notification(number, url, body, at, due_at, state=state, is_forged=is_forged))


def _strikes(world: World, name: str, body: Mapping[str, Any]) -> bool:
    """Tell whether a notification meets a fault, whenever it is looked at."""
    reference = json.dumps([body.get("order_no"), body.get("status"), body.get("data")])
    return strikes_order(world.settings, name, reference)


def _body(world: World, order: Order) -> dict[str, Any]:
    """The body of public fact 4.1; `finish_time` is in milliseconds here, unlike in the query."""
    arrives = order.arrive_amount
    body = {
        "partner_id": world.settings.partner_id,
        "order_no": order.order_no,
        "request_id": order.request_id,
        "order_type": order.order_type,
        "product_code": PRODUCTS.get(order.order_type, ""),
        "currency": order.currency,
        "order_amount": format_amount(order.amount),
        "pay_amount": format_amount(order.debit),
        "fee_amount": format_amount(order.fee),
        "actual_amount": "" if arrives is None else format_amount(arrives),
        "finish_time": "" if order.finished_at is None else str(int(order.finished_at * 1000)),
        "status": world.settings.behaviour.shown_status(order.status),
        "reason": order.reason,
        "customer_ref_id": order.customer_ref_id or "",
        "extra_info": json.dumps(order.metadata, ensure_ascii=False, separators=(",", ":")),
    }
    return {name: value for name, value in body.items() if value != ""}


def due_notifications(world: World) -> list[Notification]:
    """Notifications whose next attempt is due, oldest first."""
    due = (notice for notice in world.undelivered.values() if notice.due_at is not None and notice.due_at <= world.now)
    return sorted(due, key=lambda notice: notice.number)


def signed_bytes(world: World, notification: Notification) -> bytes:
    """The notification as it travels, signed by the platform inside its body (public fact 1.5)."""
    signature = Signatures(world.settings.behaviour).make(notification.body, world.platform_key)
    changed = _forged(notification.body) if notification.is_forged else {}
    return json_bytes({**notification.body, **changed, "sign": signature})


def _forged(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a forger changes: success, and ten times as much."""
    return {"status": OrderStatus.SUCCESS, "order_amount": f"{body.get('order_amount', '1')}0", "reason": "forged"}


def record_attempt(world: World, notification: Notification, outcome: str) -> None:
    """Remember what came of an attempt (`HTTP 200` delivers it), and when the next is due."""
    notification.attempts.append(outcome)
    made = len(notification.attempts)
    is_repeated = outcome == "HTTP 200" and _strikes(world, "notice_repeated", notification.body)
    if is_repeated and notification.attempts.count(outcome) == 1:
        notification.due_at = world.now
    elif outcome == "HTTP 200":
        notification.state, notification.due_at = "delivered", None
    elif made < len(ATTEMPT_MINUTES) and not notification.is_forged:
        notification.due_at = notification.created_at + 60 * ATTEMPT_MINUTES[made]
    else:
        notification.state, notification.due_at = "given up", None
    world.save_notification(notification)
