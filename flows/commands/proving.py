"""`treasury doctor --prove` and `--adopt`: finds out how the service behaves, and adopts it."""

import json
from collections.abc import Sequence

from flows.commands.common import BAD_INPUT, DONE, configured_desk
from treasury.ledger.proofs import AS_CONNECTED, Proof, ProofVerdict, standing_proofs
from treasury.proving import Findings, adopt, prove_service
from treasury.settings import read_settings


def prove() -> int:
    """Compare the account's settings with the service and print the findings; exit 2 while one is contradicted.

    Also exits 2 when the service does not know the account. Sends only operations that read.
    """
    findings = prove_service(configured_desk())
    show_findings(findings)
    print(in_short(findings))
    return DONE if findings.is_well else BAD_INPUT


def show_findings(findings: Findings) -> None:
    """Print every finding on a line, with its proposal below it."""
    width = max(len(proof.name) for proof in findings.proofs)
    for proof in findings.proofs:
        setting = "" if proof.setting == AS_CONNECTED else f" = {_text(proof.setting)}"
        print(f"{proof.verdict:12}  {proof.name:{width}}{setting}: {proof.evidence}")
        if proof.proposed is not None:
            take = f"treasury doctor --adopt {proof.name} --by NAME"
            print(f"{'':12}  {'':{width}}  proposed: {_text(proof.proposed)} ({take})")


def in_short(findings: Findings) -> str:
    """The number of proven, contradicted and open entries; or that the service does not know the account."""
    if not findings.knows_us:
        return "the service did not answer a signed question: nothing can be sent with this account"
    counts = {verdict: sum(proof.verdict is verdict for proof in findings.proofs) for verdict in ProofVerdict}
    return ", ".join(f"{number} {verdict.value}" for verdict, number in counts.items())


def take_over(names: Sequence[str], by: str | None) -> int:
    """Adopt what was proposed for these entries; exit 2 while the service contradicts another one."""
    desk = configured_desk()
    for proof in adopt(desk, names, by or ""):
        print(f"adopted: {_said(proof)}")
    standing = standing_proofs(desk.ledger, read_settings().service)
    left = sorted(proof.name for proof in standing if proof.verdict is ProofVerdict.CONTRADICTED)
    still = f"the service still contradicts {', '.join(left)}; " if left else ""
    print(f"{still}treasury doctor --prove shows the present findings")
    return BAD_INPUT if left else DONE


def _said(proof: Proof) -> str:
    return f"{proof.name} = {_text(proof.proposed)} (it was {_text(proof.setting)})"


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {each}" for name, each in value.items()) or "none"
    return value if isinstance(value, str) else json.dumps(value)
