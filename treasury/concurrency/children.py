"""Child processes that end with this one, even when it is killed: they watch a pipe that closes with it.

This file, run with MODULE and ARGUMENTS, runs a module as `python -m` would, and ends when its parent
ends.
"""

import multiprocessing
import os
import runpy
import site
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path

STOP_SECONDS = 5

ROOT = str(Path(__file__).resolve().parents[2])
"""The folder that our packages stand in."""


@contextmanager
def child(
    module: str,
    arguments: Sequence[str],
    environ: Mapping[str, str] | None = None,
    *,
    stdout: int | None = None,
    pass_fds: Sequence[int] = (),
) -> Iterator[subprocess.Popen[str]]:
    """Run `python -m module` until this block, or this process, ends. `environ`: this process's when left out."""
    process = subprocess.Popen(  # noqa: S603 - our own interpreter, our own modules
        [sys.executable, "-P", __file__, module, *arguments],  # -P: nothing of the folder that we stand in
        stdin=subprocess.PIPE,
        stdout=stdout,
        env=environ,
        pass_fds=pass_fds,
        text=True,
        start_new_session=True,  # a terminal interrupts all processes of a session; this one decides about its children
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def importing_ours(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment in which `python -m` finds this installation, and nothing of the folder it is started in.

    Whoever starts us may stand in a project with a `tasks` or `flows` of its own, which would hide ours.
    """
    found = [each for each in environ.get("PYTHONPATH", "").split(os.pathsep) if each not in ("", ROOT)]
    if ROOT not in site.getsitepackages():
        found.insert(0, ROOT)
    return {**environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(found)}


def end_with_starter() -> None:
    """Let this process, which `multiprocessing` started, end when the one that started it has, however it did.

    A process of a pool waits for work from a pipe that its siblings hold open, too: it would wait for ever.
    """
    starter = multiprocessing.parent_process()
    assert starter is not None
    threading.Thread(target=lambda: (wait([starter.sentinel]), os._exit(1)), daemon=True).start()


def _end_with_parent() -> None:
    # The bare file: a thread that waits in a buffered one makes the interpreter's own end fail.
    while os.read(0, 1024):
        pass  # nothing is ever written; the pipe closes when the parent ends, however it does
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if ROOT not in sys.path:  # a copy of the source, which nothing but its folder makes known
        sys.path.insert(0, ROOT)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
