"""All questions in turn, and what they came to."""

from dataclasses import dataclass

from treasury.payments.desk import Desk
from treasury.proving.access import Proof, ProofVerdict, Questions, prove_access, prove_clock, prove_window
from treasury.proving.history import prove_history
from treasury.proving.shapes import prove_absences, prove_platform_key, prove_sides, prove_support

NOTIFICATION = "notification.json"
"""The file in the home that holds the body of a notification as it arrived."""


@dataclass(frozen=True)
class Findings:
    """The findings of all questions."""

    proofs: list[Proof]
    knows_us: bool
    """True when a signed question got the service's own envelope."""

    @property
    def is_well(self) -> bool:
        """Tell whether nothing is contradicted, and the service knows us."""
        return self.knows_us and not any(proof.verdict is ProofVerdict.CONTRADICTED for proof in self.proofs)


def prove_service(desk: Desk) -> Findings:
    """Ask the service what is really so, by operations that only read."""
    questions = Questions(desk.client, desk.account.rules)
    clock, skew = prove_clock(desk.client.read_clock, desk.settings.max_clock_skew_seconds)
    proofs = [clock, *prove_access(questions, skew)]
    if questions.knows_us:
        proofs += prove_window(questions, skew)
        proofs += prove_absences(questions)
        proofs += prove_sides(questions)
        proofs += prove_support(questions)
        proofs += prove_history(questions, desk.ledger)
    proofs.append(prove_platform_key(questions, desk.settings.home / NOTIFICATION))
    last = list({proof.name: proof for proof in proofs}.values())  # a clock that is refused speaks against its header
    return Findings(last, questions.knows_us)
