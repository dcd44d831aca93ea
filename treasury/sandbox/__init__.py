"""A stand-in for the service over real HTTP: real balances, real signatures, and faults on purpose."""

from treasury.promptpay import build_promptpay
from treasury.sandbox.behaviour import Behaviour
from treasury.sandbox.clock import SandboxClock
from treasury.sandbox.faults import FAULTS
from treasury.sandbox.keys import generate_key_pair
from treasury.sandbox.server import RunningSandbox, running_sandbox, serve
from treasury.sandbox.settings import DEFAULT_BALANCES, SandboxSettings, read_switches

__all__ = [
    "DEFAULT_BALANCES",
    "FAULTS",
    "Behaviour",
    "RunningSandbox",
    "SandboxClock",
    "SandboxSettings",
    "build_promptpay",
    "generate_key_pair",
    "read_switches",
    "running_sandbox",
    "serve",
]
