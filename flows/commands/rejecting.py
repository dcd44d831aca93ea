"""`treasury reject`."""

from flows.commands.common import DONE, configured_desk
from flows.commands.deciding import NOBODY, PersonOptions
from flows.commands.resuming import resume_suspended
from treasury.approving.tokens import Verb
from treasury.ledger.approvals import decided_by, matter_of_plan, reject_plan
from treasury.settings import os_user


def reject(key: str, /, *, person: PersonOptions = NOBODY) -> int:
    """Reject the plan of a run that waits: its approvals end, and it is not paid.

    Where the policy in force lists people it takes the key of one of them.

    Parameters
    ----------
    key:
        The run key, as treasury approvals lists it.

    """
    if person.print_token:
        return person.print_for(Verb.REJECT, key, lambda: matter_of_plan(configured_desk().ledger, key).code)
    proof, desk = person.proof, configured_desk()
    desk.check_standing()  # what an older ledger says of its plans is not to be believed
    plan = reject_plan(desk.ledger, key, by=person.by, why=person.why, os_user=os_user(), proof=proof)
    began = desk.ledger.run(plan.run_key) is not None
    says = "the run goes on as it was agreed to before" if began else "it is not paid"
    print(f"plan {plan.sha256[:12]} of run {key} is rejected by {decided_by(desk.ledger, plan)}; {says}")
    resume_suspended(plan)  # so that it ends
    return DONE
