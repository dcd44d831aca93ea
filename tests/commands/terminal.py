"""Commands with somebody at a keyboard: a terminal of their own, or lines that are piped into them."""

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Sequence

from tests.commands.office import Ended, Office

_SECONDS = 60


def on_a_terminal(office: Office, arguments: Sequence[object], answers: Sequence[tuple[str, str]]) -> Ended:
    """Run a command on a terminal: to each question that it shows, in order, somebody types an answer."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "flows", *map(str, arguments)],
        cwd=office.home,
        env={**office.environ, "TERM": "dumb"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - it calls nothing else
    )
    os.close(theirs)
    shown, seen, end = b"", 0, time.monotonic() + _SECONDS
    questions = list(answers)
    try:
        while chunk := _read(ours, end):
            shown += chunk
            if questions and (found := shown.find(questions[0][0].encode(), seen)) >= 0:
                seen = found + len(questions[0][0])
                os.write(ours, f"{questions.pop(0)[1]}\n".encode())
        code = process.wait(timeout=_SECONDS)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert not questions, (questions, shown.decode())
    return Ended(code, shown.decode().replace("\r\n", "\n"), "")


def _read(terminal: int, end: float) -> bytes:
    """Return what a terminal shows next; nothing when whoever wrote to it has ended."""
    ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
    assert ready, "the command neither asked nor ended"
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux says so when the other end is closed
        return b""


def piped(office: Office, text: str, *arguments: object) -> Ended:
    """Run a command with lines on its standard input, which is no terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "flows", *map(str, arguments)],
        cwd=office.home,
        env=office.environ,
        input=text,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)
