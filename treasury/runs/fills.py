"""After a round: whether the balances agree with the orders, what was achieved, what follows, and the files."""

import logging
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict

from treasury.errors import OutcomeUnknown, Refused
from treasury.files import copy_file, write_json
from treasury.ledger.obligations import moved_since
from treasury.ledger.snapshots import snapshot_of
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.planning.fills import Proof, Verdict, fill_of, prove_fills
from treasury.planning.position import Snapshot
from treasury.planning.trades import SkippedTrade, TradePlan
from treasury.provider.funds import PartnerBalance
from treasury.reports.results import in_words, summarize_run, write_run_results
from treasury.reports.starts import start_folder
from treasury.runs.approving import marks_of
from treasury.runs.desk import Desk
from treasury.runs.rebalancing import KIND, first_run_key, orders_of_day

LOG = logging.getLogger("treasury")

# Why a trade that a later round was to make was not made.
NOT_SETTLED = "what pays for it is not settled yet"
FROM_FILE = "sales of this start pay for it, which a file of balances does not show: rebalance without --balances"
NO_MORE_ROUNDS = "this start has made as many rounds as the policy's max_rounds allows"

LOOKS = 3
"""So often balances are read again while they do not agree yet: the service may show a fill before its balance."""
LOOK_SECONDS = 1.0


class Done(TypedDict):
    """A round after its trades. Plain values, because Prefect passes it between tasks."""

    run_key: str
    proofs: list[dict[str, Any]]
    fills: list[dict[str, Any]]
    unsettled: list[str]
    """Pairs whose trades were not settled."""
    again: bool
    """Whether the proceeds are there that later trades are to be paid from."""


def prove_round(desk: Desk, run_key: str, plan: TradePlan) -> Done:
    """Compare the balances with what the orders say, and each trade with its plan."""
    orders = {order.row_ref: order for order in desk.ledger.orders(run_key=run_key)}
    made = [(trade, orders[trade.row_ref]) for trade in plan.trades if trade.row_ref in orders]
    settled = {trade.symbol for trade, order in made if order.state is State.SETTLED}
    unsettled = sorted({trade.symbol for trade in plan.trades} - settled)
    proofs = proofs_of(desk, run_key)
    fills = [fill_of(trade, order) for trade, order in made]
    for each in proofs:
        log = LOG.warning if each.verdict is Verdict.BREAK else LOG.info
        log("balance of %s is %s: %s", each.asset, each.verdict.value, each.why)
    for fill in fills:
        LOG.info(
            "%s %s: planned %s, achieved %s, slippage %s bps, fee %s bps",
            fill.row_ref,
            fill.outcome,
            fill.planned,
            fill.achieved,
            fill.slippage_bps,
            fill.fee_bps,
        )
    return Done(
        run_key=run_key,
        proofs=[each.as_dict() for each in proofs],
        fills=[fill.as_dict() for fill in fills],
        unsettled=unsettled,
        again=bool(plan.later) and bool(settled),
    )


def proofs_of(desk: Desk, run_key: str) -> list[Proof]:
    """What balances say of the orders of a round, against those that it was planned from."""
    own = desk.ledger.orders(run_key=run_key)
    run = desk.ledger.run(run_key)
    kept = None if run is None else snapshot_of(desk.ledger, run_key, run.plan_sha256)
    if kept is None or not own:
        return []
    snapshot = Snapshot.from_dict(kept["snapshot"])
    if snapshot.source != Snapshot(0).source:
        return []  # balances of a file say nothing about what the service held at that moment
    flying = frozenset(each.request_id for each in snapshot.in_flight)
    proofs: list[Proof] = []
    for look in range(LOOKS):
        if look:
            time.sleep(LOOK_SECONDS)
        after = _balances(desk, own)
        others = moved_since(desk.ledger, run_key, snapshot.at, flying)
        proofs = prove_fills(snapshot.available, after, desk.ledger.orders(run_key=run_key), others)
        if not any(proof.verdict is Verdict.BREAK for proof in proofs):
            break
    return proofs


def _balances(desk: Desk, own: Sequence[Order]) -> dict[str, Decimal]:
    found = {}
    for asset in sorted({asset for order in own for asset in (order.currency, order.receive_currency) if asset}):
        try:
            available = desk.client.read(PartnerBalance(currency=asset)).available
        except (Refused, OutcomeUnknown) as error:
            LOG.info("the balance of %s could not be read again: %s", asset, error)
            continue
        if available is not None:
            found[asset] = available
    return found


# --- files -------------------------------------------------------------------------------------------------------


def write_decisions(
    desk: Desk, contents: Sequence[Mapping[str, Any]], rounds: Sequence[Done], out: Path | None, kind: str = KIND
) -> Mapping[str, Any]:
    """Write `decisions.json`, `results.csv` and `run.json` of a start; returns its summary.

    `contents`: what was decided in each of its rounds, in their order. The files show every trade of the day, or of
    both days where midnight passed between its rounds; the summary counts those of this start, and what it wanted and
    did not trade.
    """
    run_key = contents[-1]["run_key"]
    days = list(dict.fromkeys(first_run_key(each["run_key"]) for each in contents))
    day = days[0]
    folder = (out or desk.settings.run_folder(day)).absolute()
    plan = TradePlan.from_dict(contents[-1]["decided"]["plan"])
    skipped = plan.as_dict()["skipped"]
    breaks = [proof for done in rounds for proof in done["proofs"] if proof["verdict"] == Verdict.BREAK.value]
    own = start_folder(folder) / "decisions.json"
    write_json(own, {**contents[-1], "rounds": [*contents], "after": [*rounds]})
    copy_file(own, folder / "decisions.json")
    orders = [order for each in days for order in orders_of_day(desk, each)]
    waits = [
        SkippedTrade(each.asset, each.side, each.currency, each.amount, _why_no_further_round(contents[-1], rounds))
        for each in plan.later
    ]
    unsent = [_as_row(each) for each in (*plan.skipped, *waits) if each.is_wanted]
    said = write_run_results(
        folder,
        day,
        kind,
        orders,
        marks=marks_of(desk, run_key),
        files=[folder / "decisions.json"],
        unsent=unsent,
        skipped=skipped,
        breaks=breaks,
    )
    mine = [order for done in rounds for order in desk.ledger.orders(run_key=done["run_key"])]
    summary = summarize_run(run_key, kind, mine)
    if unsent:
        summary["counts"]["not_sent"] = summary["counts"].get("not_sent", 0) + len(unsent)
    today = in_words(summarize_run(day, kind, orders))
    return {**said, **summary, "today": today, "skipped": skipped, "breaks": breaks}


def _why_no_further_round(content: Mapping[str, Any], rounds: Sequence[Done]) -> str:
    if not rounds or not rounds[-1]["again"]:
        return NOT_SETTLED
    return NO_MORE_ROUNDS if (content["snapshot"] or {}).get("source") == Snapshot(0).source else FROM_FILE


def _as_row(skipped: SkippedTrade) -> dict[str, object]:
    return {
        "row_ref": f"{skipped.side.value.lower()}-{skipped.asset}",
        "outcome": "not_sent",
        "reason": skipped.reason,
        "currency": skipped.currency,
        "amount": skipped.amount,
        "next_action": "none: the next rebalancing plans it again; nothing of it was sent",
    }
