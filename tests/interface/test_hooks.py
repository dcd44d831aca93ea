"""Importing the domain changes nothing for others in the same process."""

import subprocess
import sys


def test_the_hooks_of_ones_own_retries_stay() -> None:
    code = (
        "import stamina.instrumentation as hooks\n"
        "before = hooks.get_on_retry_hooks()\n"
        "import treasury.provider.client, treasury.payments.desk\n"
        "assert before and hooks.get_on_retry_hooks() == before"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
