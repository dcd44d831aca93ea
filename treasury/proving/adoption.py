"""Taking over what was proposed: into the account file, by a named person, journaled in the ledger."""

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from treasury.account_file import explain, read_account_file, write_account_file
from treasury.errors import InputError
from treasury.ledger.proofs import Proof, note_adoptions, standing_proofs
from treasury.provider.service_rules import ServiceRules
from treasury.runs.desk import Desk
from treasury.settings import os_user, service_variable


def adopt(desk: Desk, names: Sequence[str], by: str) -> list[Proof]:
    """Let the service table say what was proposed for these entries; all of them, or none. Raises `InputError`."""
    if not by.strip():
        raise InputError("an adoption needs a name: --by NAME")
    found = {proof.name: proof for proof in standing_proofs(desk.ledger, desk.account.rules)}
    proofs = [_proposed(found, name) for name in dict.fromkeys(names)]
    for proof in proofs:
        if proof.name in desk.settings.service_in_environment:
            raise InputError(f"{service_variable(proof.name)} says it in the environment: change it there")
    file = desk.settings.account_file
    before = read_account_file(file).service
    changes = {proof.name: proof.proposed for proof in proofs}
    try:
        service = ServiceRules.model_validate({**before.model_dump(exclude_unset=True), **changes})
    except ValidationError as error:
        raise InputError(f"{explain(error, ServiceRules)}; nothing was adopted") from None
    note_adoptions(desk.ledger, proofs, f"{by.strip()} ({os_user()})")
    write_account_file(file, service=service.model_dump(mode="json", exclude_unset=True))
    return proofs


def _proposed(found: Mapping[str, Proof], name: str) -> Proof:
    proof = found.get(name)
    if proof is not None and name in ServiceRules.model_fields and proof.proposed is not None:
        return proof
    named = ", ".join(sorted(each.name for each in found.values() if each.proposed is not None))
    raise InputError(
        f"nothing is proposed for {name}: treasury doctor --prove asks the service (proposed now: {named or 'nothing'})"
    )
