"""Access to the service: partner, key, hash, unit of the timestamp, clock; and the findings about a service."""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Any

from treasury.errors import NotConnected, OutcomeUnknown, Refused
from treasury.provider.client import Account, Client
from treasury.provider.funds import PartnerBalance
from treasury.provider.operation import Effect, Operation, Reply
from treasury.provider.orders import QueryTransaction, VerifyDepositAddress
from treasury.provider.refusals import ACCOUNT_TROUBLE, ASK_FIRST, FINAL
from treasury.provider.service_rules import ServiceRules
from treasury.provider.signing import HASHES


class ProofVerdict(StrEnum):
    """The verdict of the service's answers on an entry of the service table."""

    PROVEN = "proven"
    CONTRADICTED = "contradicted"
    OPEN = "open"
    """No query can show it, or no answer was conclusive."""


AS_CONNECTED = "as connected"
"""The setting of a finding about something outside the table, such as a key."""


@dataclass(frozen=True)
class Proof:
    """The finding about one entry."""

    name: str
    """An entry of the service table, or `partner_id`, `private_key`, `clock` and the like."""
    setting: Any
    """Its present setting in the account."""
    verdict: ProofVerdict
    evidence: str
    """Question and answer, in words."""
    proposed: Any = None
    """The proposed setting; None proposes nothing."""


Answer = Reply | Refused | OutcomeUnknown | NotConnected

CURRENCY = "USDT"
"""The asset whose balance is asked for."""

LONGEST_WINDOW_SECONDS = 24 * 3600.0

PUBLISHED = {*FINAL, *ASK_FIRST, "200", "7000"} - {*ACCOUNT_TROUBLE, "400"}
"""Envelope codes that an unrelated web server does not answer with."""

DOCUMENTED = {"hash": tuple(HASHES), "timestamp_unit": ("ms", "s"), "sign_type": ("RSA",)}
"""How a request may be signed by the public facts: what is tried where the account's own way is refused."""

MADE_UP_ADDRESS = "TMadeUpAddressThatNobodyHas0000000"


@dataclass
class Questions:
    """Asks, and knows by what the service takes a question."""

    client: Client
    rules: ServiceRules
    """The rules that questions are signed by: the account's, or those found to work instead."""
    knows_us: bool = False
    """True when a signed question got the service's own envelope."""
    probe: Callable[[], Operation[Any]] = lambda: PartnerBalance(currency=CURRENCY)
    """Makes a question that this service answers: a balance look-up, unless it has none."""

    def ask(self, operation: Operation[Any], *, seconds_old: float = 0.0, **changes: str | bool) -> Answer:
        """The answer to one question, signed as the account's rules say, with these entries changed."""
        if operation.effect is not Effect.READS:
            raise AssertionError(f"{operation.operation_name()} does more than read")
        rules = self.rules.model_copy(update=changes)
        client = self.client.signing_as(rules, seconds_old=seconds_old)
        answer = _send(client, operation)
        if isinstance(answer, OutcomeUnknown | NotConnected):
            answer = _send(client, operation)
        self.knows_us = self.knows_us or self.is_read(answer)
        return answer

    def is_read(self, answer: Answer) -> bool:
        """Tell whether an answer shows that the service read the question, and knows who asks."""
        return isinstance(answer, Reply) or (isinstance(answer, Refused) and answer.code in self._own_codes)

    @property
    def _own_codes(self) -> frozenset[str]:
        rules = self.rules
        named = rules.no_such_order | rules.no_such_user | rules.refused_for_good | rules.asked_first
        return frozenset((named | PUBLISHED) - set(ACCOUNT_TROUBLE) - {"400", "404"})


def _send(client: Client, operation: Operation[Any]) -> Answer:
    try:
        reply: Reply = client.send(operation)
    except (Refused, OutcomeUnknown, NotConnected) as error:
        return error
    return reply


def words_of(answer: Answer) -> str:
    """An answer in words."""
    if isinstance(answer, Reply):
        return "code 200"
    if isinstance(answer, Refused):
        shown = f"code {answer.code} {answer.message}" if answer.code is not None else f"HTTP {answer.http_status}"
        return shown.strip() if answer.code is not None else f"{shown} without the service's envelope"
    return str(answer)


def _made_up() -> Operation[Any]:
    return QueryTransaction(request_id=made_up())


def made_up() -> str:
    """A reference that nobody has ever used."""
    return f"tf-made-up-{secrets.token_hex(12)}"


def is_trouble(answer: Answer) -> bool:
    """Tell whether an answer is about who asks."""
    return isinstance(answer, Refused) and answer.code in ACCOUNT_TROUBLE


def prove_access(questions: Questions, skew: float | None) -> Iterator[Proof]:
    """Sign a balance look-up as the account says; where the service refuses it, in every documented way.

    What works is what the questions that follow are signed with. `skew`: how far the service's clock is ahead.
    """
    rules = questions.rules
    first = _first_that_says_something(questions)
    asked = f"a signed look-up was answered {words_of(first)}"
    if isinstance(first, NotConnected | OutcomeUnknown) or not (questions.knows_us or is_trouble(first)):
        for name, setting in _signed_by(rules):
            yield Proof(name, setting, ProofVerdict.OPEN, f"{asked}: that is no answer of this service")
        return
    if not is_trouble(first):
        for name, setting in _signed_by(rules):
            yield Proof(name, setting, ProofVerdict.PROVEN, asked)
        yield from _prove_null(questions)
        return
    yield from _explain_trouble(questions, first, skew)


def _first_that_says_something(questions: Questions) -> Answer:
    first = questions.ask(questions.probe())
    if questions.knows_us or is_trouble(first):
        return first
    second = questions.ask(_made_up())  # a service may have no balance look-up, which is no operation of the document
    if not (questions.knows_us or is_trouble(second)):
        return first
    questions.probe = _made_up
    return second


def _signed_by(rules: ServiceRules) -> list[tuple[str, Any]]:
    keys = [(name, AS_CONNECTED) for name in ("partner_id", "private_key")]
    return keys + [(name, rules.entry(name)) for name in DOCUMENTED]


def _explain_trouble(questions: Questions, first: Answer, skew: float | None) -> Iterator[Proof]:
    """Try the documented alternatives, and name the one that the service takes."""
    rules = questions.rules
    codes = [_code(first)]
    ours = {name: rules.entry(name) for name in DOCUMENTED}
    for tried in product(*(dict.fromkeys((ours[name], *every)) for name, every in DOCUMENTED.items())):
        changes: dict[str, Any] = dict(zip(DOCUMENTED, tried, strict=True))
        if changes == ours:
            continue
        answer = questions.ask(questions.probe(), **changes)
        if questions.is_read(answer):
            yield from _name_the_right_one(questions, words_of(first), changes)
            questions.rules = rules.model_copy(update=changes)
            yield from _prove_null(questions)
            return
        codes.append(_code(answer))
    yield from _name_the_trouble(rules, codes, words_of(first), skew)


def _code(answer: Answer) -> str | None:
    return answer.code if isinstance(answer, Refused) else None


def _name_the_right_one(questions: Questions, said: str, changes: dict[str, Any]) -> Iterator[Proof]:
    rules = questions.rules
    tried = ", ".join(changes.values())
    for name, setting in _signed_by(rules):
        if name in changes and changes[name] != setting:
            evidence = f"a look-up signed so was answered {said}; signed with {tried} it is taken"
            yield Proof(name, setting, ProofVerdict.CONTRADICTED, evidence, changes[name])
        else:
            yield Proof(name, setting, ProofVerdict.PROVEN, f"a look-up signed with {tried} is taken")


def _name_the_trouble(rules: ServiceRules, codes: list[str | None], said: str, skew: float | None) -> Iterator[Proof]:
    """Nothing helps: which of them the codes are about."""
    far = skew is not None and abs(skew) > rules.timestamp_window_seconds
    asked = f"a signed look-up was answered {said}"
    blamed = {
        "401": ("partner_id", f"{asked}: the partner id is wrong, or the portal has no key for it"),
        "403": ("partner_id", f"{asked}: this key may not ask, or this machine's address is not allowed"),
        "406": ("private_key", f"{asked}, with SHA1 and SHA256: the portal has the public half of another key"),
    }
    name, evidence = next(
        (blamed[str(code)] for code in ("401", "403", "406") if set(codes) == {code}),
        ("clock", f"{asked}, in both units" + (f"; the clocks are {skew:+.0f} s apart" if far else "")),
    )
    if "412" in codes and "406" in codes:
        name, evidence = "clock", f"{asked}; where the signature is right, the timestamp is not, in either unit"
    yield Proof(name, AS_CONNECTED, ProofVerdict.CONTRADICTED, evidence)
    for other, setting in _signed_by(rules):
        if other != name:
            yield Proof(other, setting, ProofVerdict.OPEN, f"{asked}, which is about the {name.replace('_', ' ')}")


def _prove_null(questions: Questions) -> Iterator[Proof]:
    """The text `null` as an optional field: whether the service drops it before it checks the signature."""
    asks = VerifyDepositAddress(currency="USDT_TRC20", address=MADE_UP_ADDRESS)
    kept = questions.ask(asks.model_copy(update={"tag": "null"}), null_text_is_blank=False)
    ours = questions.rules.null_text_is_blank
    dropped = isinstance(kept, Refused) and kept.code == "406"
    said = f"a look-up that signs a field with the text null was answered {words_of(kept)}"
    if dropped:
        verdict = ProofVerdict.PROVEN if ours else ProofVerdict.CONTRADICTED
        yield Proof("null_text_is_blank", ours, verdict, said, None if ours else True)
    elif ours:
        yield Proof("null_text_is_blank", ours, ProofVerdict.PROVEN, f"{said}; left out, it cannot be misread")
    else:
        verdict = ProofVerdict.PROVEN if isinstance(kept, Reply) else ProofVerdict.OPEN
        yield Proof("null_text_is_blank", ours, verdict, said)


def prove_window(questions: Questions, skew: float | None) -> Iterator[Proof]:
    """How old a request the service reads: the least of ever longer ages that it refuses with 412."""
    rules = questions.rules
    window = age = rules.timestamp_window_seconds
    while questions.is_read(answer := questions.ask(questions.probe(), seconds_old=age + 5 - (skew or 0.0))):
        if age >= LONGEST_WINDOW_SECONDS:
            yield _no_window(questions.client.account, window, age)
            return
        age *= 4
    said = f"a look-up whose timestamp was {age + 5:.0f} s old was answered {words_of(answer)}"
    if _code(answer) != "412":
        yield Proof("timestamp_window_seconds", window, ProofVerdict.OPEN, said)
    elif age == window:
        yield Proof("timestamp_window_seconds", window, ProofVerdict.PROVEN, said)
    else:
        wider = f"{said}, and one {age / 4 + 5:.0f} s old was read"
        yield Proof("timestamp_window_seconds", window, ProofVerdict.CONTRADICTED, wider, age)


def _no_window(account: Account, window: float, age: float) -> Proof:
    said = f"a look-up whose timestamp was {age / 3600:.0f} h old was read"
    if account.is_loopback:
        return Proof("timestamp_window_seconds", window, ProofVerdict.OPEN, f"{said}; a rehearsal's service may do so")
    said += ": a request that a network holds back could act a day later; ask the service's support"
    return Proof("timestamp_window_seconds", window, ProofVerdict.CONTRADICTED, said)


def prove_clock(read: Callable[[], float | None], max_skew: float) -> tuple[Proof, float | None]:
    """How far the service's clock is from ours, and the finding about it."""
    try:
        skew = read()
    except NotConnected as error:
        return Proof("clock", max_skew, ProofVerdict.OPEN, str(error)), None
    if skew is None:
        return Proof("clock", max_skew, ProofVerdict.OPEN, "the service's answers do not say their time"), None
    said = f"the service's clock is {skew:+.0f} s from ours"
    verdict = ProofVerdict.PROVEN if abs(skew) <= max_skew else ProofVerdict.CONTRADICTED
    return Proof("clock", max_skew, verdict, said), skew
