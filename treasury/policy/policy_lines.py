"""Pure: a policy line by line, as its file says it, the difference between two, and what one leaves open."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from treasury.policy.limits import PaymentLimits
from treasury.policy.model import Policy

_BARE = re.compile(r"[A-Za-z0-9_-]+")
"""A key that TOML takes without quotes."""


def lines_of(policy: Policy) -> list[str]:
    """Return what a policy says, one TOML line each, with the whole name of each entry; defaults are left out."""
    return [f"{name} = {value}" for name, value in _entries(policy).items()]


def changes_between(before: Policy | None, after: Policy) -> list[str]:
    """Return what one policy says otherwise than the one before, an entry each: what it was, and what it is then."""
    old, new = {} if before is None else _entries(before), _entries(after)
    return [
        f"{name}: {old.get(name, 'not set')} -> {new.get(name, 'not set')}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def left_open(policy: Policy) -> Iterator[str]:
    """Yield what may be paid or withdrawn by a policy without any limit, or without the approvals that it asks for."""
    for table in ("payouts", "withdrawals") if policy.limits_money else ():
        limits = policy.payments(table)
        asked = {*limits.one_approval_above, *limits.two_approvals_above}
        limited = {*limits.max_per_payout, *limits.max_per_run, *limits.max_per_day}
        named = asked or limited
        others = _others(limits, named)
        if getattr(policy, table) is None:
            yield f"it has no [{table}] table: {table} of any amount leave without a limit and without an approval"
            continue
        if named and others:
            rule, none, entry = (
                ("take approvals", "none", "one_approval_above") if asked else ("are limited", "not", "max_per_day")
            )
            yield (
                f"{table}: totals in {', '.join(sorted(named))} {rule}, in {others} {none}, whatever they come to: "
                f"name them in {entry}, or leave them out of {table}.currencies"
            )
        new = {*limits.new_payee_above}
        if new and (beside := _others(limits, new)):
            yield (
                f"{table}: first payments to an account are held in {', '.join(sorted(new))}, in {beside} never, "
                f"whatever they come to: name them in new_payee_above, or leave them out of {table}.currencies"
            )
        if endless := sorted(asked - {*limits.max_per_day}):
            yield (
                f"{table}: runs of {', '.join(endless)} that each take no approval leave without one, however much "
                f"they come to together in a day: limit that in {table}.max_per_day"
            )


def _others(limits: PaymentLimits, named: Collection[str]) -> str:
    """Return which currencies may be debited besides these, in words; nothing where there are none."""
    return "other currencies" if limits.currencies is None else ", ".join(sorted({*limits.currencies} - {*named}))


def _entries(policy: Policy) -> dict[str, str]:
    return dict(_flat("", policy.model_dump(mode="json", exclude_defaults=True)))


def _flat(prefix: str, said: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in said.items():
        key = prefix + (name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False))
        if isinstance(value, Mapping):
            yield from _flat(f"{key}.", value)
        elif value is not None:
            yield key, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{name} = {_text(each)}" for name, each in value.items() if each is not None)
        return f"{{{inside}}}"
    return json.dumps(value, ensure_ascii=False)
