"""Pure: who may decide what, which approvals of a proposal count, and why each other one does not."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from treasury.approving.tokens import Binding, Matter, Token, Verb
from treasury.errors import InputError
from treasury.policy.people import APPROVAL_HOURS, Maker, People, Right, same_person

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


HOUR_MS = 3_600_000


@dataclass(frozen=True)
class ApprovalRules:
    """The approvals that the policy asks for a plan."""

    asked: int = 0
    """Approvals besides its maker's."""
    people: People = People()
    """Who may give them; typed names count where nobody is listed."""
    hours: int = APPROVAL_HOURS
    right: Right = Right.APPROVE
    names: tuple[str, ...] | None = None
    """Whose typed names count; anybody's where it is None."""


@dataclass(frozen=True)
class Proposal:
    """A plan that was proposed."""

    binding: Binding
    maker: Maker
    ends_at: int | None = None
    """When no approval of it counts any more, Unix ms: of a rebalancing the end of its business date."""


@dataclass(frozen=True)
class Approval:
    """One approval, as it was recorded."""

    name: str
    """The person's, of the list or as it was typed."""
    os_user: str
    approved_at: int
    expires_at: int
    token: Token | None = None
    """The text that was signed with a key; None for a typed name."""


@dataclass(frozen=True)
class ApprovalJudgement:
    """Which approvals count."""

    counted: tuple[str, ...]
    refused: tuple[str, ...]
    """Why each other one does not count, in words."""


def judge_approvals(
    proposal: Proposal,
    approvals: Iterable[Approval],
    rules: ApprovalRules,
    now: int,
) -> ApprovalJudgement:
    """Judge all approvals of a proposal by the rules of the policy in force; `now` in Unix ms."""
    counted: list[str] = []
    refused: list[str] = []
    for approval in approvals:
        why = why_not(proposal, approval, rules, now)
        if why is None and any(same_person(approval.name, name) for name in counted):
            why = "approved already"
        if why is None:
            counted.append(approval.name)
        else:
            refused.append(f"{approval.name}: {why}")
    return ApprovalJudgement(tuple(counted), tuple(refused))


def why_not(proposal: Proposal, approval: Approval, rules: ApprovalRules, now: int) -> str | None:
    """The first reason why an approval does not count; None when it does."""
    return next(_reasons(proposal, approval, rules, now), None)


def _reasons(proposal: Proposal, approval: Approval, rules: ApprovalRules, now: int) -> Iterator[str]:
    maker, people = proposal.maker, rules.people
    if people:
        yield from _reasons_of_key(proposal, approval, rules)
        if not maker.is_signed and maker.os_user in people.listed[approval.name].os_users:
            yield f"works as {maker.os_user}, who made this plan; somebody else has to approve it"
    elif rules.names is not None and not any(same_person(approval.name, each) for each in rules.names):
        yield f"the policy in force does not let {approval.name} {in_words(rules.right)}"
    if same_person(approval.name, maker.name):
        yield "made this plan; somebody else has to approve it"
    if now >= approval.expires_at:
        yield "the approval is expired"
    if proposal.ends_at is not None and now >= proposal.ends_at:
        yield "the day of the plan is over"


def _reasons_of_key(proposal: Proposal, approval: Approval, rules: ApprovalRules) -> Iterator[str]:
    token, binding, people, right = approval.token, proposal.binding, rules.people, rules.right
    if token is None:
        yield "the policy lists people with keys, and this approval is a typed name"
        return
    owner = people.with_key(token.key)
    if owner is None:
        yield "the policy in force does not list this key (it may be revoked)"
        return
    if owner != approval.name:
        yield f"the key is {owner}'s"
    if not people.may(owner, right):
        yield f"the policy in force does not let {owner} {in_words(right)}"
    if not token.is_genuine:
        yield "the signature is not genuine"
    if token.purpose is not Verb.APPROVE:
        yield f"this token is to {token.purpose.value}, it approves none"
    if token.run_key != binding.run_key:
        yield f"the token is for run {token.run_key}"
    if token.code != binding.code:
        yield (
            "the token is for another proposal, ledger, account or policy: "
            f"{binding.code[:14]}... waits, and it approves {token.code[:14]}..."
        )
    if token.expires_at < approval.expires_at:
        yield "the approval was recorded for longer than its token says"


def in_words(right: Right) -> str:
    """A right as people read it."""
    return right.value.replace("_", " ")
