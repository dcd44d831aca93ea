"""The surroundings that a command is started in: proxies that its environment names."""

import os

THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
"""Names of this machine that no proxy is asked for."""


def go_past_proxies() -> None:
    """Have no proxy asked for what is on this very machine: Prefect's server, which commands start here.

    A company's proxy cannot reach it, and would be told its password. Other hosts keep their proxy.
    """
    spared = (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").split(",")
    if "*" not in spared:
        hosts = dict.fromkeys(filter(None, (each.strip() for each in (*spared, *THIS_MACHINE))))
        os.environ.update(dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(hosts)))
