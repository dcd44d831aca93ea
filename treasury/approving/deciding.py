"""Pure: who may decide what, where the policy in force lists people with keys."""

from collections.abc import Iterable
from dataclasses import dataclass

from treasury.approving.tokens import Matter, Token, Verb
from treasury.errors import InputError
from treasury.policy.people import Maker, People, same_person

ANOTHERS = frozenset({Verb.RELEASE, Verb.NOT_SENT, Verb.FAILED, Verb.ACCEPT, Verb.LIFT})
"""Decisions by which more may leave, or count as right: not by the person who made what they are about."""

IN_A_RECOVERY = frozenset({Verb.CANCEL, Verb.REJECT})
"""Decisions that count while a recovery of the policy runs, beside a stop: by them nothing leaves."""

ALONE = "alone"
"""Marks a decision of the person who made what it is about, because the policy lists nobody else."""


@dataclass(frozen=True)
class Decided:
    """Whose decision counts."""

    name: str
    alone: bool = False
    """The person made what it is about, and the policy lists nobody else."""

    def says(self, os_user: str, why: str) -> str:
        """The decision as it is kept and shown."""
        return f"{self.name} ({os_user}){f', {ALONE}' if self.alone else ''}: {why}"


def judge_decision(token: Token, matter: Matter, people: People, makers: Iterable[Maker], now: int) -> Decided:
    """Whose decision this is, where people are listed; `now` in Unix ms. Raises `InputError` that says why it is none.

    `makers`: who made what it is about.
    """
    owner = people.with_key(token.key)
    if owner is None:
        raise refusal("the policy in force does not list this key (it may be revoked)")
    if not token.is_genuine:
        raise refusal("the signature is not genuine")
    if token.purpose is not matter.purpose:
        raise refusal(f"the token is to {token.purpose.value}, not to {matter.purpose.value}")
    if token.code != matter.code:
        raise refusal(
            "the token was signed about something else, or what it is about changed since: "
            f"{matter.code} stands here now, and it is about {token.code[:14]}..."
        )
    if now >= token.expires_at:
        raise refusal("the token is expired")
    made = [each for each in makers if is_made_by(owner, each, people)]
    if matter.purpose not in ANOTHERS or not made:
        return Decided(owner)
    makers = list(makers)
    others = [
        name
        for name, person in people.listed.items()
        if person.keys and not any(is_made_by(name, each, people) for each in makers)
    ]
    if others:
        raise refusal(f"{owner} made what it is about; somebody else has to: {', '.join(others)}")
    return Decided(owner, alone=True)


def is_made_by(name: str, maker: Maker, people: People) -> bool:
    """Tell whether a listed person is this maker: by name or key, or, without a signature, by the operating system's
    user."""
    if same_person(name, maker.name) or maker.key in people.listed[name].keys:
        return True
    return not maker.is_signed and maker.os_user in people.listed[name].os_users


def refusal(why: str) -> InputError:
    """The error that a decision does not count."""
    return InputError(f"this decision does not count, and nothing was recorded: {why}")


def needs_key(purpose: Verb, people: People, code: str) -> InputError:
    """The error of a decision by a typed name, where the policy in force lists people."""
    names = ", ".join(name for name, person in people.listed.items() if person.keys)
    return InputError(
        f"the policy in force lists people with keys, so to {purpose.value} takes the key of one of them ({names}); "
        f"nothing was recorded: give --key FILE instead of --by NAME; on another machine --print --code {code} --key "
        "FILE makes a token, which --token TOKEN records here"
    )
