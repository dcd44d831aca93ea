"""Sweeps in the ledger: both sides of every order, so that a report can be made again and a cut-off sweep resumed."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, exists, insert, select

from treasury.concurrency.batches import batched
from treasury.errors import LedgerPutBack
from treasury.ledger import schema
from treasury.ledger.changed_by_hand import changed_among
from treasury.ledger.database import in_code_points, serialize
from treasury.ledger.ledger import Ledger
from treasury.ledger.made_reports import IS_FOUND, IS_WHOLE, IS_WRITTEN, has_ended, reports_before
from treasury.ledger.mapping import kept_json
from treasury.ledger.statements import RowChange, change_all
from treasury.money import format_amount
from treasury.orders.quoting import QUOTED
from treasury.orders.records import Order, Quote
from treasury.orders.states import CORRECTIONS, ENDS, NEVER_LEFT, NOT_AT_SERVICE, OPEN, State
from treasury.provider.card_users import QueryCardUser
from treasury.provider.orders import Pay
from treasury.provider.refusals import DOUBLE_PAYMENT
from treasury.reconciliation.scope import SUPERSEDED, Scope

_AT_ONCE = 2_000
"""Rows that are read and inserted together."""

CARD_USER = QueryCardUser.operation_name()
"""Operation of a question about a card user."""


@dataclass(frozen=True)
class Question:
    """One request id to ask about."""

    id: int
    sweep_id: int
    request_id: str
    operation: str
    order_id: int | None
    """None for a superseded quote, and for a card user."""
    side: Mapping[str, Any]
    """The ledger's side."""


@dataclass(frozen=True)
class Sweep:
    """A sweep: Unix ms when it began; `as_of` once its report was made."""

    id: int
    started_at: int
    scope: Scope
    as_of: int | None


RECEIPT = Pay.operation_name()
"""Operation of a question about a pay-in of ours."""

BESIDE_ORDERS = (CARD_USER, RECEIPT)
"""Operations of the questions that are about no order."""


def ends_told(ledger: Ledger) -> dict[int, State]:
    """Order -> the end that was told of it last, where the service corrected it since a report of everything asked.

    Whoever asked first (a notification, a narrowed report, a night that was cut off) corrected the ledger, and told it
    to nobody.
    """
    reports = reports_before(ledger, None, IS_WHOLE, IS_WRITTEN)[-REPORTS_LOOKED_AT:]
    made = {row.sweep_id: row.journal_id for row in reports}
    first = min(made.values(), default=0) if len(made) == REPORTS_LOOKED_AT else 0
    journal, orders, answers = schema.journal.c, schema.orders.c, schema.answers.c
    query = select(journal.id, journal.source, journal.order_id, orders.request_id).join_from(
        schema.journal, schema.orders, journal.order_id == orders.id
    )
    corrected = journal.event.in_([each.value for each in CORRECTIONS]) & (journal.id > first)
    steps = ledger.read(query.where(corrected).order_by(journal.id))
    told: dict[str, tuple[int, State | None]] = {}
    for some in batched(dict.fromkeys(step.request_id for step in steps), _AT_ONCE):
        asked = answers.sweep_id.in_(made) & answers.request_id.in_(some) & ~_is_unanswered()
        for row in ledger.read(select(answers.sweep_id, answers.request_id, answers.service_side).where(asked)):
            if made[row.sweep_id] >= told.get(row.request_id, (0, None))[0]:
                told[row.request_id] = made[row.sweep_id], ENDS.get(kept_json(row.service_side).get("status"))
    found: dict[int, State] = {}
    for step in steps:
        last, end = told.get(step.request_id, (0, None))
        if end is not None:  # Race: a correction may have come between its question and its report
            found[step.order_id] = end
        elif step.id > last:
            found.setdefault(step.order_id, State(step.source))
    return found


REPORTS_LOOKED_AT = 30
"""The newest reports of everything, which may not have told yet what was corrected: they could not ask about it."""


def sides_of(
    ledger: Ledger,
    orders: Iterable[Order],
    card_users: Iterable[Any],
    receipts: Iterable[Mapping[str, Any]] = (),
    told: Mapping[int, State] = MappingProxyType({}),
) -> Iterator[dict[str, Any]]:
    """Yield the ledger's side of every question: orders, their superseded quotes, card users, pay-ins.

    `told`: the end of an order that was told last, where that is not its own.
    """
    superseded = []
    for some in batched(orders, _AT_ONCE):
        changed = changed_among(ledger, some)
        asked: dict[int, list[Quote]] = {}
        for quote in ledger.quotes([order.id for order in some if order.operation in QUOTED]):
            asked.setdefault(quote.order_id, []).append(quote)
        for order in some:
            confirmed = None
            for quote in asked.get(order.id, ()):
                if quote.request_id == order.request_id:
                    confirmed = quote
                # Race: a run that sends meanwhile may have added later generations; they are not superseded.
                elif quote.generation < order.generation:
                    superseded.append(_row(None, _quote_side(order, quote)))
            side = {**_order_side(order, confirmed), "changed": changed.get(order.id)}
            yield _row(order.id, side | ({"state": told[order.id].value} if order.id in told else {}))
    yield from superseded
    yield from (_row(None, _card_user_side(user)) for user in card_users)
    yield from (_row(None, {**receipt, "operation": RECEIPT}) for receipt in receipts)


def record_sweep(ledger: Ledger, scope: Scope, rows: Iterable[Mapping[str, Any]], since: int) -> int:
    """Record the questions of a new sweep, or of one of this scope since `since` that was cut off; returns its id.

    `rows`: the questions, by `sides_of`, recorded a few at a time; a sweep that was cut off while recording is resumed,
    too. A question that it holds already keeps its first side.
    """
    sweeps, reports = schema.sweeps.c, schema.reports.c
    cut_off = (
        select(sweeps.id)
        .outerjoin(schema.reports, reports.sweep_id == sweeps.id)
        .where(reports.sweep_id.is_(None), sweeps.scope == scope.as_text(), sweeps.started_at >= since)
        .order_by(sweeps.id.desc())
        .limit(1)
    )

    def begin(connection: Connection) -> int:
        serialize(connection)
        found = connection.execute(cut_off).scalar()
        if found is None:
            begun = insert(schema.sweeps).values(started_at=ledger.now(), scope=scope.as_text())
            found = connection.execute(begun.returning(sweeps.id)).scalar_one()
        return int(found)

    sweep_id = ledger.write(begin)
    for some in batched(rows, _AT_ONCE):
        ledger.write(partial(_record_questions, sweep_id=sweep_id, rows=some))
    return sweep_id


def _record_questions(connection: Connection, sweep_id: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Record the questions that the sweep does not hold yet. Another process may run the same sweep.

    A sweep that another process ended meanwhile is left as it was reported.
    """
    serialize(connection)
    if has_ended(connection, sweep_id):
        return
    table = schema.answers.c
    named = table.request_id.in_([row["request_id"] for row in rows])
    held = set(connection.execute(select(table.request_id).where(table.sweep_id == sweep_id, named)).scalars())
    if new := [{**row, "sweep_id": sweep_id} for row in rows if row["request_id"] not in held]:
        connection.execute(insert(schema.answers), new)


def sweep(ledger: Ledger, sweep_id: int) -> Sweep:
    """One sweep. Raises `LedgerPutBack` where it is gone: nothing takes one out of a ledger."""
    sweeps, reports = schema.sweeps, schema.reports
    query = select(sweeps, reports.c.as_of).outerjoin(reports, reports.c.sweep_id == sweeps.c.id)
    row = next(iter(ledger.read(query.where(sweeps.c.id == sweep_id))), None)
    if row is None:
        raise LedgerPutBack
    return Sweep(row.id, row.started_at, Scope(**json.loads(row.scope)), row.as_of)


def last_reported_sweep(ledger: Ledger, scope: Scope) -> Sweep | None:
    """The sweep of this scope, and of no other, whose report was made last."""
    made = reports_before(ledger, None, schema.sweeps.c.scope == scope.as_text())
    return sweep(ledger, made[-1].sweep_id) if made else None


def open_questions(ledger: Ledger, sweep_id: int, ruled: Collection[str] = ()) -> list[int]:
    """Ids of the questions that the sweep has not asked yet, or could not ask, and of those that are asked again.

    Whoever goes on with a sweep reads the balances anew. What came in only the answers about pay-ins and deposits say;
    and the end of an order on its way, of an operation in `ruled` (`debited_when`), moves what no range stands for.
    """
    return _open(ledger, schema.answers.c.sweep_id == sweep_id, _is_unanswered() | _is_asked_again(ruled))


def still_open(ledger: Ledger, ids: Sequence[int], since: int | None = None, ruled: Collection[str] = ()) -> list[int]:
    """Those of these questions that nobody has asked yet, or could ask.

    `since`, Unix ms: only those that nobody has tried since then, and among them every one that is asked again; none
    once the report was made.
    """
    table, reports = schema.answers.c, schema.reports.c
    if since is None:
        return _open(ledger, table.id.in_(ids), _is_unanswered())
    asked_before = table.asked_at.is_(None) | (table.asked_at < since)
    is_under_way = ~exists().where(reports.sweep_id == table.sweep_id)
    return _open(ledger, table.id.in_(ids) & asked_before & is_under_way, _is_unanswered() | _is_asked_again(ruled))


def _open(ledger: Ledger, *conditions: ColumnElement[bool]) -> list[int]:
    table = schema.answers.c
    return [row.id for row in ledger.read(select(table.id).where(*conditions).order_by(table.id))]


def _is_asked_again(ruled: Collection[str]) -> ColumnElement[bool]:
    answers, orders = schema.answers.c, schema.orders.c
    is_receipt = answers.order_id.is_(None) & answers.ledger_side.like(f'%"operation": "{RECEIPT}"%')
    is_on_its_way = orders.operation.in_(sorted(ruled)) & orders.state.in_([state.value for state in OPEN])
    return is_receipt | exists().where(orders.id == answers.order_id, is_on_its_way)


def _is_unanswered() -> ColumnElement[bool]:
    table = schema.answers.c
    return table.service_side.is_(None) | table.service_side.like('{"answer": "failed"%')


def questions(ledger: Ledger, ids: Sequence[int]) -> list[Question]:
    """These questions."""
    table = schema.answers.c
    rows = ledger.read(select(schema.answers).where(table.id.in_(ids)).order_by(table.id))
    sides = [kept_json(row.ledger_side) for row in rows]
    return [
        Question(row.id, row.sweep_id, row.request_id, side["operation"], row.order_id, side)
        for row, side in zip(rows, sides, strict=True)
    ]


def sent_since(ledger: Ledger, question: Question, began: int) -> str | None:
    """Return the side of an order that had not left when its question was recorded, and that its run has sent since;
    None of any other one. What the service shows of it then is what was sent.

    `began`: when the question began to be asked, Unix ms.
    """
    if question.order_id is None or question.side["state"] not in NEVER_LEFT:
        return None
    [order] = ledger.orders(ids=[question.order_id])
    is_sent = order.sent_at != question.side.get("sent_at") and order.state not in NOT_AT_SERVICE
    if not is_sent or order.first_answer == DOUBLE_PAYMENT or order.request_id != question.request_id:
        return None
    quotes = ledger.quotes([order.id]) if order.operation in QUOTED else ()
    quote = next((each for each in quotes if each.request_id == order.request_id), None)
    state = _state_told(ledger, order, began)
    side = _order_side(order, quote) | {"state": state.value, "final_at": order.final_at if state.is_final else None}
    return side_text({**side, "changed": changed_among(ledger, [order]).get(order.id)})


def _state_told(ledger: Ledger, order: Order, began: int) -> State:
    """Return the state that whoever sent an order was told before its question began; of an end that the service
    corrected since, the first one. A younger end may be younger than the answer, too."""
    if not order.state.is_final:
        return order.state
    corrected = [State(each.source) for each in ledger.journal(order) if each.event in CORRECTIONS]
    return (corrected or [order.state if (order.final_at or 0) < began else State.ACCEPTED])[0]


def record_answers(connection: Connection, texts: Mapping[int, str], at: int, ours: Mapping[int, str]) -> None:
    """Record the service's side of these questions, each by `side_text`; inside the transaction of its steps.

    `ours`: the ledger's side of those that `sent_since` gives another one. Where an earlier start of the sweep found
    what this one could not ask about, or does not find, the earlier answer stays: only it says what came in.
    """
    table, reports = schema.answers.c, schema.reports.c
    of_ended = select(table.id).join(schema.reports, reports.sweep_id == table.sweep_id).where(table.id.in_(texts))
    if connection.execute(of_ended.limit(1)).first():
        return  # Race: another start has ended the sweep, which is left as it was reported
    unheard = [key for key, text in texts.items() if not text.startswith(_FOUND)]
    kept = set(connection.execute(select(table.id).where(table.id.in_(unheard), IS_FOUND)).scalars())
    change_all(connection, _RECORDED, [(key, text, at) for key, text in texts.items() if key not in kept])
    change_all(connection, _TRIED, [(key, at) for key in kept])
    change_all(connection, _OURS, list(ours.items()))


_FOUND = '{"answer": "found"'
_RECORDED = RowChange(schema.answers, ("id",), ("service_side", "asked_at"))
_TRIED = RowChange(schema.answers, ("id",), ("asked_at",))
_OURS = RowChange(schema.answers, ("id",), ("ledger_side",))


def both_sides(
    ledger: Ledger, sweep_id: int, columns: Sequence[str], shared: Mapping[str, str | None] = MappingProxyType({})
) -> Iterator[dict[str, list[Any]]]:
    """Yield both sides of every order of a sweep by column, sorted by request id, a part of them at a time.

    The service's side is empty where it was not asked. Of orders that `shared` a number (request id -> the other one,
    or None where it has another by now) each answer is the record of the other one, or the number was not its own.
    """
    table = schema.answers.c
    query = select(table.ledger_side, table.service_side).where(table.sweep_id == sweep_id)
    with ledger.snapshot() as stream:
        sides = map(_side, stream(query.order_by(in_code_points(table.request_id))))
        orders = (side for side in sides if side["operation"] not in BESIDE_ORDERS)
        while True:
            part: dict[str, list[Any]] = {name: [] for name in columns}
            for side in islice(orders, PART):  # one of them is there at a time
                if side["request_id"] in shared:
                    other = shared[side["request_id"]]
                    side.update({"known_order_no": None} if other is None else {"seen_request_id": other})
                for name, values in part.items():
                    values.append(side.get(name))
            if not part[columns[0]]:
                return
            yield part


def sides_beside(ledger: Ledger, sweep_id: int) -> dict[str, list[dict[str, Any]]]:
    """Return both sides of every card user and pay-in of a sweep, by operation."""
    table = schema.answers.c
    query = select(table.ledger_side, table.service_side).where(table.sweep_id == sweep_id, table.order_id.is_(None))
    found: dict[str, list[dict[str, Any]]] = {operation: [] for operation in BESIDE_ORDERS}
    with ledger.snapshot() as stream:
        for side in map(_side, stream(query.order_by(table.id))):
            if side["operation"] in found:
                found[side["operation"]].append(side)
    return found


def _side(row: Any) -> dict[str, Any]:
    ours, theirs = row
    return {**orjson.loads(ours), **orjson.loads(theirs or "{}")}


PART = 20_000
"""Orders that are compared at once."""


def _row(order_id: int | None, side: dict[str, Any]) -> dict[str, Any]:
    return {"request_id": side["request_id"], "order_id": order_id, "ledger_side": side_text(side)}


_encode = json.JSONEncoder(ensure_ascii=False).encode


def side_text(side: Mapping[str, Any]) -> str:
    """A side as it is stored; begins with its `answer`, if it is the service's. What is None is left out."""
    return _encode(
        {
            name: format_amount(value) if isinstance(value, Decimal) else value
            for name, value in side.items()
            if value is not None
        }
    )


def _order_side(order: Order, quote: Quote | None) -> dict[str, Any]:
    """`fee` is the one of the quote it confirmed, else the one that was told first; `rate` is the quote's: what the
    service shows now is compared with them."""
    return {
        "request_id": order.request_id,
        "run_key": order.run_key,
        "row_ref": order.row_ref,
        "operation": order.operation,
        "state": order.state.value,
        "currency": order.currency,
        "amount": order.amount,
        "receive_currency": order.receive_currency,
        "receive_amount": order.receive_amount,
        "fee": order.told_fee if quote is None else quote.fee,
        "fee_currency": order.told_fee_currency if quote is None else quote.fee_currency,
        "rate": None if quote is None else quote.rate,
        "known_order_no": order.order_no,
        "created_at": order.created_at,
        "sent_at": order.sent_at,
        "final_at": order.final_at,
        "bound": order.bound,
    }


def _quote_side(owner: Order, quote: Quote) -> dict[str, Any]:
    return {
        **_order_side(owner, quote),
        "request_id": quote.request_id,
        "state": SUPERSEDED,
        "currency": quote.pay_currency,
        "amount": quote.pay_amount,
        "receive_currency": quote.receive_currency,
        "receive_amount": quote.receive_amount,
        "known_order_no": quote.quote,
        "created_at": quote.created_at,
        "sent_at": None,
        "final_at": None,
    }


def _card_user_side(user: Any) -> dict[str, Any]:
    return {
        "request_id": f"card user {user.user_xid}",
        "operation": CARD_USER,
        "user_xid": user.user_xid,
        "kyc_status": user.kyc_status,
        **{name: getattr(user, name) for name in ("first_at", "since", "passed_at", "passed_level")},
    }
