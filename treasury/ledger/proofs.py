"""Findings about the service, and what a person adopted of them. The last finding of each entry counts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, func, insert, select

from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.provider.service_rules import ServiceRules


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
            ProofVerdict(row.verdict),
            row.evidence,
            None if row.proposed is None else json.loads(row.proposed),
        )
        for row in rows
    }


def standing_proofs(ledger: Ledger, rules: ServiceRules) -> list[Proof]:
    """The last findings whose setting is still the account's; an entry that was changed since has none."""
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
