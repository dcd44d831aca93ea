"""Tests of what the fast engine asks of Python's threads must not stop the process."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyreqwest")

ROOT = Path(__file__).resolve().parents[2]
# Threads come and go, and every allocation collects what takes its time to die.
BUSY = """
import gc, os, threading, time
from treasury.provider.pyreqwest_engine import _strangers

class Slow:
    def __init__(self):
        self.me = self
    def __del__(self):
        time.sleep(0.001)

def come_and_go():
    while True:
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()

for _ in range(4):
    threading.Thread(target=come_and_go, daemon=True).start()
gc.set_threshold(1)
for _ in range(50):
    Slow()
    _strangers()
print("done", gc.isenabled(), flush=True)
os._exit(0)
"""


def test_looking_for_threads_that_python_does_not_know_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BUSY], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "done True\n", done.stderr
