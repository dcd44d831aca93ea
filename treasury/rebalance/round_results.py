"""After a round: whether the balances agree with the orders, what was achieved, what follows, and the files."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict

from treasury.errors import OutcomeUnknown, Refused
from treasury.files import copy_file, write_json
from treasury.ledger.obligations import moved_since
from treasury.ledger.snapshots import snapshot_of
from treasury.money import round_up
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.payments.approving import dated_by, marks_of
from treasury.payments.desk import Desk
from treasury.planning.fills import FillProof, FillVerdict, fill_of, prove_fills
from treasury.planning.market import DIGITS
from treasury.planning.position import Snapshot
from treasury.planning.trades import SkippedTrade, TradePlan
from treasury.policy.model import Policy
from treasury.provider.funds import PartnerBalance
from treasury.rebalance.consent import KIND
from treasury.rebalance.rebalancing import first_run_key, orders_of_day
from treasury.reports.results import TOLD_AGAIN, in_words, summarize_run, write_run_results
from treasury.reports.starts import end_start, start_folder

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
    """True when the proceeds are there that later trades are to be paid from."""


def prove_round(desk: Desk, run_key: str, plan: TradePlan) -> Done:
    """Compare the balances with what the orders say, and each trade with its plan."""
    proofs, done = proofs_of(desk, run_key), round_done(desk, run_key, plan)
    for each in proofs:
        log = LOG.warning if each.verdict is FillVerdict.BREAK else LOG.info
        log("balance of %s is %s: %s", each.asset, each.verdict.value, each.why)
    for fill in done["fills"]:
        LOG.info(
            "%(row_ref)s %(outcome)s: planned %(planned)s, achieved %(achieved)s, "
            "slippage %(slippage_bps)s bps, fee %(fee_bps)s bps",
            fill,
        )
    return {**done, "proofs": [each.as_dict() for each in proofs]}


def round_done(desk: Desk, run_key: str, plan: TradePlan) -> Done:
    """Return what became of the trades of a round, whoever made them; without what the balances said then."""
    orders = {order.row_ref: order for order in desk.ledger.orders(run_key=run_key)}
    made = [(trade, orders[trade.row_ref]) for trade in plan.trades if trade.row_ref in orders]
    settled = {trade.symbol for trade, order in made if order.state is State.SETTLED}
    unsettled = sorted({trade.symbol for trade in plan.trades} - settled)
    return Done(
        run_key=run_key,
        proofs=[],
        fills=[fill_of(trade, order).as_dict() for trade, order in made],
        unsettled=unsettled,
        again=bool(plan.later) and bool(settled),
    )


def proofs_of(desk: Desk, run_key: str) -> list[FillProof]:
    """Return what balances say of the orders of a round, against those that it was planned from."""
    own = desk.ledger.orders(run_key=run_key)
    run = desk.ledger.run(run_key)
    kept = None if run is None else snapshot_of(desk.ledger, run_key, run.plan_sha256)
    if kept is None or not own:
        return []
    snapshot = Snapshot.from_dict(kept["snapshot"])
    if snapshot.source != Snapshot(0).source:
        return []  # balances of a file say nothing about what the service held at that moment
    flying = frozenset(each.request_id for each in snapshot.in_flight)
    proofs: list[FillProof] = []
    for look in range(LOOKS):
        if look:
            desk.clock.sleep(LOOK_SECONDS)
        after = _balances(desk, own)
        others = moved_since(desk.ledger, run_key, snapshot.at, flying)
        proofs = prove_fills(snapshot.available, after, desk.ledger.orders(run_key=run_key), others)
        if not any(proof.verdict is FillVerdict.BREAK for proof in proofs):
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
    desk: Desk,
    contents: Sequence[Mapping[str, Any]],
    rounds: Sequence[Done],
    out: Path | None,
    ended_by: str | None = None,
) -> Mapping[str, Any]:
    """Write `decisions.json`, `results.csv` and `run.json` of a start; returns its summary.

    `contents`: what was decided in each of its rounds, in their order; `ended_by`: the error that ended the start
    before its last round. The files show every trade of the day, or of both days where midnight passed between its
    rounds; the summary counts those of this start, those of the day that are unknown or held, and what it wanted and
    did not trade.
    """
    run_key = contents[-1]["run_key"]
    days = list(dict.fromkeys(first_run_key(each["run_key"]) for each in contents))
    day = days[0]
    folder = (out or desk.settings.run_folder(day)).absolute()
    plan = TradePlan.from_dict(contents[-1]["decided"]["plan"])
    skipped = plan.as_dict()["skipped"]
    breaks = breaks_of(rounds)
    file = write_rounds(folder, contents, rounds)
    orders = [order for each in days for order in orders_of_day(desk, each)]
    why = ended_by or _why_no_further_round(contents[-1], rounds)
    waits = [SkippedTrade(each.asset, each.side, each.currency, each.amount, why) for each in plan.later]
    unsent = [_as_row(each, NEXT) for each in plan.skipped if each.is_wanted]
    unsent += [_as_row(each, NEXT if ended_by is None else MEND) for each in waits if each.is_wanted]
    said = write_run_results(
        folder,
        day,
        KIND,
        orders,
        marks=marks_of(desk, run_key),
        details=dated_by(Policy.model_validate(contents[-1]["policy"])),
        files=[file],
        unsent=unsent,
        skipped=skipped,
        breaks=breaks,
    )
    end_start()
    own = {each["run_key"] for each in contents}
    told = [order for order in orders if order.run_key in own or order.state.outcome in TOLD_AGAIN]
    summary = summarize_run(run_key, KIND, told)
    if unsent:
        summary["counts"]["not_sent"] = summary["counts"].get("not_sent", 0) + len(unsent)
    today = in_words(summarize_run(day, KIND, orders))
    return {**said, **summary, "today": today, "skipped": skipped, "breaks": breaks}


def breaks_of(rounds: Iterable[Done]) -> list[dict[str, Any]]:
    """The balances that did not move by the orders of these rounds."""
    return [proof for done in rounds for proof in done["proofs"] if proof["verdict"] == FillVerdict.BREAK.value]


def write_rounds(folder: Path, contents: Sequence[Mapping[str, Any]], rounds: Sequence[Done]) -> Path:
    """Write `decisions.json`: what was decided, last and in each round, and what came of each."""
    own, newest = start_folder(folder) / "decisions.json", folder / "decisions.json"
    write_json(own, {**contents[-1], "rounds": [*contents], "after": [*rounds]})
    copy_file(own, newest)
    return newest


def _why_no_further_round(content: Mapping[str, Any], rounds: Sequence[Done]) -> str:
    if not rounds or not rounds[-1]["again"]:
        return NOT_SETTLED
    return NO_MORE_ROUNDS if (content["snapshot"] or {}).get("source") == Snapshot(0).source else FROM_FILE


NEXT = "none: the next rebalancing plans it again; nothing of it was sent"
MEND = "see to what its reason names, then rebalance again; nothing of it was sent"


def _as_row(skipped: SkippedTrade, next_action: str) -> dict[str, object]:
    return {
        "row_ref": f"{skipped.side.value.lower()}-{skipped.asset}",
        "outcome": "not_sent",
        "reason": skipped.reason,
        "currency": skipped.currency,
        "amount": round_up(skipped.amount, DIGITS),
        "next_action": next_action,
    }
