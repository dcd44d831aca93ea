"""Business days: calendars against days that everybody knows, and time on business days against a count by hours."""

import random
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pandas
import pytest

from tests.reconciliation.parts import in_parts
from treasury.errors import InputError
from treasury.planning.position import scheduled
from treasury.policy.business_days import BusinessDays, without_bank_holidays
from treasury.policy.model import Policy, parse_policy
from treasury.reconciliation.report import ReconciliationInput, build_report
from treasury.reconciliation.sides import COLUMNS

HOUR = 3_600_000
CHRISTMAS, BOXING, NEXT = date(2026, 12, 25), date(2026, 12, 26), date(2026, 12, 28)


def policy_of(**tables: object) -> Policy:
    return parse_policy(tables, "policy.toml")


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def test_a_day_is_open_where_every_calendar_has_it_open() -> None:
    assert BusinessDays([]).is_open(CHRISTMAS)
    singapore = BusinessDays(["SG"])
    assert not singapore.is_open(CHRISTMAS)
    assert singapore.is_open(NEXT)
    assert not BusinessDays(["SG", "GB"]).is_open(NEXT)  # the day for Boxing Day, which was a Saturday
    assert BusinessDays(["SG", "GB"]).next_open(CHRISTMAS) == date(2026, 12, 29)
    assert not BusinessDays(["XECB"]).is_open(BOXING)
    assert not BusinessDays(["BE"]).is_open(date(2026, 4, 3))  # banks alone are closed
    assert without_bank_holidays(["TH", "SG", "XECB", "US-NY"]) == ["SG", "US-NY"]


@pytest.mark.parametrize("name", ["XX", "US-QQ", "XNOT", ""])
def test_a_calendar_that_is_not_known_is_refused_with_its_place(name: str) -> None:
    with pytest.raises(InputError, match=f"holidays.*{name}"):
        policy_of(holidays=[name])


@pytest.mark.parametrize("zone", ["UTC", "Asia/Singapore", "America/New_York"])
def test_time_on_business_days_is_counted_back(zone: str) -> None:
    days, dice = BusinessDays(["US-NY"], zone), random.Random(zone)
    for _ in range(60):
        now = ms("2026-11-20T00:00:00+00:00") + dice.randrange(60 * 24) * HOUR
        hours = dice.choice((0, 1, 5, 24, 48, 72, 120))
        found = days.back(now, hours * HOUR)

        def open_hours(since: int, now: int = now) -> int:
            each = (datetime.fromtimestamp(at / 1000, UTC).astimezone(ZoneInfo(zone)) for at in range(since, now, HOUR))
            return sum(days.is_open(hour.date()) for hour in each)

        assert open_hours(found) == hours
        assert open_hours(found - HOUR) == hours + 1


def test_what_is_due_on_no_business_day_is_paid_on_the_one_before() -> None:
    monthly = {"name": "rent", "currency": "USDT", "amount": "5", "day_of_month": 26}
    trading = {"base_asset": "USDT", "assets": {"BTC": {"target": "1"}}, "scheduled": [monthly]}
    trading |= {"time_zone": "UTC", "rebalancing": {"min_trade": "1", "horizon_days": 0}}
    with_calendar, without = policy_of(holidays=["SG"], **trading), policy_of(**trading)
    for policy, day in ((with_calendar, date(2026, 12, 24)), (without, BOXING)):
        for number in range(5):
            today = date(2026, 12, 23) + timedelta(days=number)
            found = [each.amount for each in scheduled(policy, today, ())]
            assert bool(found) == (today == day), (today, found)


def test_a_value_date_is_a_business_day() -> None:
    policy = policy_of(holidays=["SG"], time_zone="Asia/Singapore")
    assert policy.value_date(ms("2026-12-24T15:00:00+00:00")) == "2026-12-24"
    assert policy.value_date(ms("2026-12-24T17:00:00+00:00")) == "2026-12-28"


def test_a_payout_by_banks_is_late_after_its_hours_of_business_days() -> None:
    sent, rows = ms("2026-12-24T12:00:00+00:00"), []
    for operation in ("payout", "withdraw"):
        order = {"request_id": operation, "run_key": "run", "row_ref": operation, "operation": operation}
        seen = {"answer": "found", "status": 22, "seen_currency": "USDT", "seen_amount": "5"}
        rows.append({**order, "state": "accepted", "currency": "USDT", "amount": "5", "sent_at": sent, **seen})
    frame = pandas.DataFrame(rows, columns=list(COLUMNS), dtype=object)

    def late(at: str, *calendars: str) -> set[str]:
        night = ReconciliationInput(ms(at), in_parts(frame), policy=policy_of(holidays=list(calendars)))
        return {each.found.request_id or "" for each in build_report(night).breaks if each.found.name == "pending_late"}

    assert late("2026-12-27T12:00:01+00:00") == {"payout", "withdraw"}
    assert late("2026-12-27T12:00:01+00:00", "SG") == {"withdraw"}
    assert late("2026-12-30T12:00:00+00:00", "SG") == {"withdraw"}
    assert late("2026-12-30T12:00:01+00:00", "SG") == {"payout", "withdraw"}
