"""The front desk: a request's bytes in, an answer out. Everything between is one transaction of the world."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from treasury.provider.card_users import ChangeCardUserEmail
from treasury.provider.operation import Effect, Operation
from treasury.sandbox.answers import WRITERS, Answer, NothingHere, Refusal, Repeated, envelope, json_bytes
from treasury.sandbox.behaviour import checks
from treasury.sandbox.faults import FAULTS, FaultDice, check_faults
from treasury.sandbox.gate import Gate, parse
from treasury.sandbox.handlers import HANDLERS
from treasury.sandbox.lifecycle import act_again, tick
from treasury.sandbox.world import World


class Desk:
    """Answers every request there is a handler for."""

    def __init__(self, world: World) -> None:
        check_faults(world.settings.faults)
        self._world = world
        self._behaviour = world.settings.behaviour
        self._checks = checks(self._behaviour)
        self._write = WRITERS[self._behaviour.amounts_as]
        self._gate = Gate(world)
        self._dice = FaultDice(world.settings)
        self._moods = random.Random(world.settings.seed)  # noqa: S311  # moods, not secrets

    def answer(self, operation: type[Operation[Any]], raw: bytes) -> Answer:
        """Judge a request, act on it, and answer; what is refused has not acted."""
        with self._world.open():
            tick(self._world)
            try:
                fields = self._gate.admit(raw)
                request = parse(operation, fields)
                for check in self._checks:
                    check(request, fields)
                return self._act(request)
            except NothingHere:
                return Answer(b"Not Found", 404, "text/plain")
            except Refusal as refusal:
                code = self._behaviour.refusal_codes.get(refusal.code, refusal.code)
                return Answer(envelope(self._code(code), refusal.message), refusal.http_status)

    def _act(self, request: Operation[Any]) -> Answer:
        names = self._faults_of(request)
        for name in names:
            fault = FAULTS[name]
            if not fault.acts and fault.change is not None:
                return fault.change(Answer(), self._world.settings)
        data = self._data(request, names)
        answer = self._success(type(request), data)
        for name in names:
            change = FAULTS[name].change
            answer = answer if change is None else change(answer, self._world.settings)
        return answer

    def _data(self, request: Operation[Any], names: Sequence[str]) -> Mapping[str, Any] | None:
        if request.operation_name() in self._behaviour.success_false:
            return {"success": False}
        try:
            return HANDLERS[request.operation_name()](self._world, request)
        except Repeated as repeated:
            return self._repeat(request, repeated, names)

    def _faults_of(self, request: Operation[Any]) -> Sequence[str]:
        if request.effect is Effect.READS:
            return ()
        reference = str(request.reference_value)
        quote = self._world.quotes.get(reference)  # a quote's number holds the date, its reference does not
        return self._dice.throw(request.operation_name(), reference if quote is None else quote.reference)

    def _repeat(self, request: Operation[Any], repeated: Repeated, names: Sequence[str]) -> Mapping[str, Any]:
        """Return what a repeated reference is answered, when a fault has it answered at all."""
        order = self._world.orders.get(repeated.order_no or "")
        answered = {"repeat_acts", "repeat_answers_first"}.intersection(names)
        if order is None or order.operation != request.operation_name() or not answered:
            raise repeated
        if "repeat_acts" in names:
            act_again(self._world, order)
        return order.reply

    def _success(self, operation: type[Operation[Any]], data: Mapping[str, Any] | None) -> Answer:
        if data and "status" in data:
            data = {**data, "status": self._behaviour.shown_status(data["status"])}
        if operation is ChangeCardUserEmail:
            return Answer(json_bytes(data))  # the one operation without an envelope (document, Response envelope)
        message = "success" if self._moods.random() < 0.5 else "Success"
        return Answer(envelope(self._code("200"), message, data, self._write))

    def _code(self, code: str) -> int | str:
        """The service writes it now as a number, now as text (document, Response envelope)."""
        return int(code) if self._moods.random() < 0.5 and code.isdigit() else code
