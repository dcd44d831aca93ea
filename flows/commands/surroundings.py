"""The surroundings that a command is started in: streams, and proxies that its environment names."""

import io
import os
import sys
from contextlib import suppress

STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}


def complete_streams() -> None:
    """Have all three streams open, and able to show every character: what has no place in their encoding is escaped.

    The next file that is opened takes the number of a closed one, and what is printed by that number goes into it.
    """
    for name, mode in STREAMS.items():
        stream = getattr(sys, name)
        if stream is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123 - until this process ends
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def lose_unwritten() -> None:
    """Lose what cannot be written, as on a full disk: the interpreter's own end would make an exit code of it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
"""Names of this machine that no proxy is asked for."""


def go_past_proxies() -> None:
    """Have no proxy asked for what is on this very machine: Prefect's server, which commands start here.

    A company's proxy cannot reach it, and would be told its password. Other hosts keep their proxy.
    """
    spared = (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").split(",")
    if "*" not in spared:
        hosts = dict.fromkeys(filter(None, map(str.strip, (*spared, *THIS_MACHINE))))
        os.environ.update(dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(hosts)))
