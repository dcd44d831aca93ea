"""Prefect tasks: each is a decorator and one call into the domain.

Tasks take names and paths, never a live client. Tasks that pay are never cached or retried by Prefect: `submission` and
the ledger decide what may be sent again.
"""

from tasks.run_log import outlive_reader, show_in_run_log

show_in_run_log()
outlive_reader()
