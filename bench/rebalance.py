"""A rebalancing from outside, beside Prefect's own part of it: `python -m bench.rebalance [--rounds N]`.

`treasury rebalance --yes` that makes two trades, an empty flow, and a flow of as many empty tasks, one after the other
in each round; each starts the embedded Prefect. Prints the median of each, and what is left of the rebalancing.
"""

import argparse
import os
import statistics
import tempfile
from decimal import Decimal
from pathlib import Path

from bench.commands import command
from treasury.sandbox import SandboxSettings, generate_key_pair, running_sandbox

TASKS = 14
"""Tasks of a rebalancing that makes two trades: three for each trade, and eight."""

POLICY = """time_zone = "UTC"
base_asset = "USDT"
[rebalancing]
min_trade = "10"
[assets.USDT]
target = "1000"
minimum = "500"
maximum = "100000000"
[assets.BTC]
target = "0.4"
minimum = "0.2"
maximum = "0.9"
[assets.DOGE]
target = "2000"
minimum = "1000"
maximum = "9000"
"""

FLOW = """
import sys
from flows.commands.prefect_server import prefect_api
with prefect_api("flows.rebalance_treasury"):
    from prefect import flow, task
    @task
    def nothing(): ...
    @flow
    def empty():
        for _ in range({tasks}):
            nothing()
    empty()
"""


def one_round(number: int, environ: dict[str, str], home: Path) -> dict[str, float]:
    """Seconds of each, in a ledger of its own."""
    mine = {**environ, "TREASURY_HOME": str(home / str(number))}
    (home / str(number)).mkdir()
    log = home / "log"
    found = {}
    for name, tasks in (("empty flow", 0), ("empty tasks", TASKS)):
        found[name] = command(mine, log, code=FLOW.format(tasks=tasks)).seconds
    found["rebalance"] = command(mine, log, "rebalance", "--yes", "--policy", str(home / "policy.toml")).seconds
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    private, public = generate_key_pair()
    with tempfile.TemporaryDirectory(prefix="treasury-bench-") as folder:
        home = Path(folder)
        (home / "key.pem").touch(mode=0o600)
        (home / "key.pem").write_text(private)
        (home / "policy.toml").write_text(POLICY)
        found = []
        for number in range(rounds + 1):
            settings = SandboxSettings(
                partner_id="900001",
                public_key=public,
                settle_seconds=0,
                balances={"USDT": Decimal(50_000), "BTC": Decimal(2), "DOGE": Decimal(100)},
            )
            with running_sandbox(settings) as sandbox:
                environ = {
                    **os.environ,
                    "TREASURY_BASE_URL": sandbox.base_url,
                    "TREASURY_PARTNER_ID": "900001",
                    "TREASURY_PRIVATE_KEY_FILE": str(home / "key.pem"),
                    "PREFECT_HOME": str(home / "prefect"),
                }
                found.append(one_round(number, environ, home))
    middle = {name: statistics.median(each[name] for each in found[1:]) for name in found[0]}  # the first one migrates
    for name, seconds in middle.items():
        print(f"{name:12} {seconds:6.2f} s")
    over = statistics.median(each["rebalance"] - each["empty flow"] for each in found[1:])
    own = statistics.median(each["rebalance"] - each["empty tasks"] for each in found[1:])
    print(f"over Prefect's start {over:.2f} s, of it its own {own:.2f} s")


if __name__ == "__main__":
    main()
