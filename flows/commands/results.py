"""`treasury results`: writes the results of a run anew, and sends nothing."""

from flows.commands.common import OutFolder, configured_desk, finish_run
from treasury.pay.payouts import write_results_anew
from treasury.payments.execution import check_run_key


def results(run_key: str, /, *, out: OutFolder | None = None) -> int:
    """Write the results of a run as the ledger has them now; nothing is asked or sent.

    Exit code 4 where a person is needed, as at the end of the run itself.

    Parameters
    ----------
    run_key:
        The run, for example payroll-2026-11.
    out:
        Folder for the results; the run's own when left out.

    """
    return finish_run(
        write_results_anew(configured_desk(), check_run_key(run_key), None if out is None else out.absolute())
    )
