"""Which HTTP engine is used: pyreqwest where it is installed, else httpx."""

import importlib.util

from treasury.errors import ConfigurationError
from treasury.provider.engine import LIMITS, Engine, EngineLimits, EngineName


def choose_engine(name: EngineName | None) -> EngineName:
    """The engine of this name; without one pyreqwest where it is installed, else httpx. Raises `ConfigurationError`."""
    installed = all(importlib.util.find_spec(module) is not None for module in ("pyreqwest", "uvloop"))
    if name is None:
        return "pyreqwest" if installed else "httpx"
    if name == "pyreqwest" and not installed:
        raise ConfigurationError("the HTTP engine pyreqwest is not installed: pip install 'treasury-flows[fast]'")
    return name


def open_engine(
    connections: int,
    timeout_seconds: float,
    limits: EngineLimits = LIMITS,
    proxy: str | None = None,
    name: EngineName | None = None,
) -> Engine:
    """The engine that is used. `timeout_seconds`: how long to wait for the next bytes of an answer."""
    if choose_engine(name) == "httpx":
        from treasury.provider.httpx_engine import Httpx

        return Httpx(connections, timeout_seconds, limits, proxy)
    from treasury.provider.pyreqwest_engine import Reqwest

    return Reqwest(connections, timeout_seconds, limits, proxy)
