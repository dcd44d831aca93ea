"""What was found out about the service, and what a person adopted of it: the last finding of each entry counts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, func, insert, select

from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.provider.service_rules import ServiceRules


class Verdict(StrEnum):
    """What a question to the service says of an entry of the service table."""

    PROVEN = "proven"
    CONTRADICTED = "contradicted"
    OPEN = "open"
    """Nothing that only reads can show it, or there was no answer that says anything."""


AS_CONNECTED = "as connected"
"""What stands for the setting of something that is no entry of the table, such as a key."""


@dataclass(frozen=True)
class Proof:
    """What was found about one entry."""

    name: str
    """An entry of the service table, or `partner_id`, `private_key`, `clock` and the like."""
    setting: Any
    """What the account says of it now."""
    verdict: Verdict
    evidence: str
    """What was asked, and what was answered, in words."""
    proposed: Any = None
    """What the entry should say instead; None proposes nothing."""


def keep_proofs(ledger: Ledger, proofs: Sequence[Proof]) -> None:
    """Record what was found."""
    rows = [
        {
            "at": ledger.now(),
            "name": proof.name,
            "verdict": proof.verdict.value,
            "setting": json.dumps(proof.setting),
            "evidence": proof.evidence,
            "proposed": None if proof.proposed is None else json.dumps(proof.proposed),
        }
        for proof in proofs
    ]

    def work(connection: Connection) -> None:
        connection.execute(insert(schema.proofs), rows)

    if rows:
        ledger.write(work)


def last_proofs(ledger: Ledger) -> dict[str, Proof]:
    """The last finding of each entry, by name."""
    table = schema.proofs
    last = select(func.max(table.c.id)).group_by(table.c.name)
    rows = ledger.read(select(table).where(table.c.id.in_(last)).order_by(table.c.id))
    return {
        row.name: Proof(
            row.name,
            json.loads(row.setting),
            Verdict(row.verdict),
            row.evidence,
            None if row.proposed is None else json.loads(row.proposed),
        )
        for row in rows
    }


def standing_proofs(ledger: Ledger, rules: ServiceRules) -> list[Proof]:
    """The last findings about what the account still says: an entry that was changed since has none."""
    return [
        proof
        for proof in last_proofs(ledger).values()
        if proof.name not in ServiceRules.model_fields or proof.setting == rules.entry(proof.name)
    ]


def note_adoptions(ledger: Ledger, proofs: Sequence[Proof], by: str) -> None:
    """Record that a named person takes over what was proposed: all of it, or nothing."""
    rows = [
        {
            "at": ledger.now(),
            "name": proof.name,
            "before": json.dumps(proof.setting),
            "after": json.dumps(proof.proposed),
            "evidence": proof.evidence,
            "adopted_by": by,
        }
        for proof in proofs
    ]

    def work(connection: Connection) -> None:
        connection.execute(insert(schema.adoptions), rows)

    ledger.write(work)
