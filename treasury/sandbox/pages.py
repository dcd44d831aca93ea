"""Pages a person clicks through: KYC behind each `link`, checkout behind each `checkout_url`."""

from collections.abc import Mapping
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from treasury.money import format_amount
from treasury.sandbox.books import BookAccount
from treasury.sandbox.entities import CardUser, Ending, Order, OrderStatus
from treasury.sandbox.lifecycle import finish_payin, judge, tick
from treasury.sandbox.world import World

LEVELS = {"LEVEL-1": "1", "LEVEL-2": "2"}
"""Level of a KYC link -> the `kyc_level` it leads to."""

KYC_STATUS = {"0": "not set", "1": "waiting for audit", "2": "in audit", "3": "passed", "4": "refused"}

PAYIN_STATUS: Mapping[int, str] = {OrderStatus.SUBMITTED: "waiting for payment", OrderStatus.SUCCESS: "paid"}

_TEMPLATES = {
    "frame.html": """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{% block title %}{% endblock %} - sandbox</title>
<style>
  body { font: 17px/1.5 system-ui, sans-serif; margin: 0; background: #f3f4f6; color: #1f2937 }
  main { max-width: 30rem; margin: 8vh auto; padding: 2rem; background: #fff; border-radius: 12px }
  h1 { font-size: 1.35rem; margin: 0 0 1rem }
  dl { display: grid; grid-template-columns: auto 1fr; gap: .3rem 1.2rem; margin: 0 0 1.5rem }
  dt { color: #4b5563 } dd { margin: 0; overflow-wrap: anywhere }
  button { font: inherit; padding: .6rem 1.4rem; border: 1px solid #1d4ed8; border-radius: 8px; cursor: pointer }
  button.yes { background: #1d4ed8; color: #fff } button.no { background: #fff; color: #1d4ed8 }
  small { color: #4b5563 }
</style></head>
<body><main>{% block content %}{% endblock %}
<p><small>This is a sandbox: no money and no identity is real.</small></p></main></body></html>""",
    "kyc.html": """{% extends "frame.html" %}{% block title %}Identity check{% endblock %}{% block content %}
<h1>Identity check, {{ level }}</h1>
<dl><dt>User</dt><dd>{{ user.user_xid }}</dd><dt>E-mail</dt><dd>{{ user.email }}</dd>
<dt>Status</dt><dd id="status">{{ status }}</dd></dl>
<form method="post"><button class="yes" formaction="{{ path }}/approve">Approve</button>
<button class="no" formaction="{{ path }}/refuse">Refuse</button></form>{% endblock %}""",
    "checkout.html": """{% extends "frame.html" %}{% block title %}Checkout{% endblock %}{% block content %}
<h1>{{ order.metadata["description"] }}</h1>
<dl>{% if order.metadata["remark"] %}<dt>Detail</dt><dd>{{ order.metadata["remark"] }}</dd>{% endif %}
<dt>Amount</dt><dd>{{ amount }} {{ order.currency }}</dd><dt>Order</dt><dd>{{ order.order_no }}</dd>
<dt>Status</dt><dd id="status">{{ status }}</dd></dl>
{% if payable %}<form method="post"><button class="yes" formaction="{{ path }}/pay">Pay</button></form>
{% elif order.return_url %}<p><a href="{{ order.return_url }}" rel="noreferrer">Back to the shop</a></p>{% endif %}
{% endblock %}""",
}
_PAGES = Environment(loader=DictLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined)


class Pages:
    """The pages of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.routes = [
            Route("/kyc/{user_id}/{level}", self._show_kyc, methods=["GET"]),
            Route("/kyc/{user_id}/{level}/{verdict}", self._judge_kyc, methods=["POST"]),
            Route("/checkout/{order_no}", self._show_checkout, methods=["GET"]),
            Route("/checkout/{order_no}/pay", self._pay, methods=["POST"]),
        ]

    async def _show_kyc(self, request: Request) -> Response:
        with self._world.open():
            tick(self._world)
            user, level = self._user(request)
            return _page(
                "kyc.html", user=user, level=level, status=KYC_STATUS[user.kyc_status], path=_kyc_path(user, level)
            )

    async def _judge_kyc(self, request: Request) -> Response:
        verdict = request.path_params["verdict"]
        if verdict not in ("approve", "refuse"):
            raise HTTPException(404)
        with self._world.open():
            user, level = self._user(request)
            judge(self._world, user, LEVELS[level] if verdict == "approve" else None, self._world.now)
            return RedirectResponse(_kyc_path(user, level), status_code=303)

    async def _show_checkout(self, request: Request) -> Response:
        with self._world.open():
            tick(self._world)
            order = self._payin(request)
            return _page(
                "checkout.html",
                order=order,
                amount=format_amount(order.amount),
                status=PAYIN_STATUS.get(order.status, "closed"),
                payable=order.status == OrderStatus.SUBMITTED,
                path=f"/checkout/{order.order_no}",
            )

    async def _pay(self, request: Request) -> Response:
        with self._world.open():
            tick(self._world)
            order = self._payin(request)
            if order.status == OrderStatus.SUBMITTED:  # a second click pays nothing
                finish_payin(self._world, order, Ending.SUCCESS)
            return RedirectResponse(f"/checkout/{order.order_no}", status_code=303)

    def _user(self, request: Request) -> tuple[CardUser, str]:
        level = request.path_params["level"]
        for user in self._world.users.values():
            if user.user_id == request.path_params["user_id"] and level in LEVELS:
                return user, level
        raise HTTPException(404)

    def _payin(self, request: Request) -> Order:
        order = self._world.orders.get(request.path_params["order_no"])
        if order is None or order.source is not BookAccount.WORLD:
            raise HTTPException(404)
        return order


def _kyc_path(user: CardUser, level: str) -> str:
    return f"/kyc/{user.user_id}/{level}"


def _page(name: str, **values: Any) -> HTMLResponse:
    return HTMLResponse(_PAGES.get_template(name).render(**values))
