"""`treasury doctor --prove`: asks the service how it behaves, and says which line of the settings to change."""

import json

from flows.commands.common import BAD_INPUT, DONE, configured_desk
from treasury.proving import Findings, prove_service
from treasury.proving.access import AS_CONNECTED, ProofVerdict
from treasury.settings import service_variable


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
            line = f"{service_variable(proof.name)}={_text(proof.proposed)}"
            where = f'or "{proof.name}": {json.dumps(proof.proposed)} under "service" in account.json'
            print(f"{'':12}  {'':{width}}  write: {line} ({where})")


def in_short(findings: Findings) -> str:
    """The number of proven, contradicted and open entries; or that the service does not know the account."""
    if not findings.knows_us:
        return "the service did not answer a signed question: nothing can be sent with this account"
    counts = {verdict: sum(proof.verdict is verdict for proof in findings.proofs) for verdict in ProofVerdict}
    return ", ".join(f"{number} {verdict.value}" for verdict, number in counts.items())


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {each}" for name, each in value.items()) or "none"
    return value if isinstance(value, str) else json.dumps(value)
