"""Business days: what is neither a weekend nor a holiday in every calendar that a policy names; pure."""

import functools
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

DAY = timedelta(days=1)


class BusinessDays:
    """The business days of some calendars in a time zone; every day is one where there is no calendar.

    A calendar is a country, with its part where it has some (`US-NY`; ISO 3166), or a market (`XECB`; ISO 10383). Of a
    country public and bank holidays count. Raises `ValueError` for one that is not known.
    """

    def __init__(self, calendars: Sequence[str], time_zone: str = "UTC") -> None:
        self._calendars = [_calendar(name) for name in calendars]
        self._zone = ZoneInfo(time_zone)

    def is_open(self, day: date) -> bool:
        """Tell whether a day is a business day."""
        return all(each.is_working_day(day) for each in self._calendars)

    def next_open(self, day: date) -> date:
        """Return the day itself if it is a business day, else the next one."""
        while not self.is_open(day):
            day += DAY
        return day

    def days_due_on(self, day: date) -> list[date]:
        """Return the days whose payments are made on this one: itself, and those after it that are no business days."""
        if not self.is_open(day):
            return []
        due = [day]
        while not self.is_open(due[-1] + DAY):
            due.append(due[-1] + DAY)
        return due

    def back(self, now: int, duration: int) -> int:
        """Return the earliest moment since which no more than this time has passed on business days; all in ms."""
        if not self._calendars:
            return now - duration
        end, left = now, duration
        while True:
            day = datetime.fromtimestamp((end - 1) / 1000, UTC).astimezone(self._zone).date()
            start = int(datetime.combine(day, time(), self._zone).timestamp() * 1000)
            if self.is_open(day):
                if end - start > left:
                    return end - left
                left -= end - start
            end = start


def without_bank_holidays(calendars: Sequence[str]) -> list[str]:
    """Return the countries of which only public holidays are known: their banks may be closed on more days."""
    return [name for name in calendars if "bank" not in _calendar(name).supported_categories and len(name) != MARKET]


MARKET = 4
"""Characters of the code of a market; a country has two, or more with a dash."""


@functools.cache
def _calendar(name: str) -> Any:
    import holidays  # it takes a quarter of a second, and few policies name a calendar

    country, _, part = name.partition("-")
    try:
        if len(name) == MARKET:
            return holidays.financial_holidays(name)
        known = holidays.country_holidays(country, subdiv=part or None)
        wanted = {"public", "bank"} & set(known.supported_categories)
        return holidays.country_holidays(country, subdiv=part or None, categories=wanted)
    except NotImplementedError:
        raise ValueError(f"no calendar {name!r} is known: a country (TH, US-NY) or a market (XECB)") from None
