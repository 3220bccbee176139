"""on_day, days_until, lunar and on_lunar_day: tables of days, and a second computation in Python."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pytest
from attacks.driver import Driver

import nlp.holidays
from nlp.holidays import LunarDate, lunar_date_of, months_of
from sandbox import Failed, Fired, Quiet, SandboxLimits, Verdict

ZONES = (
    "Pacific/Kiritimati",
    "Asia/Shanghai",
    "Europe/Berlin",
    "America/New_York",
    "Pacific/Pago_Pago",
)
CONTEXT: dict[str, Any] = {"messages": [], "conversation_id": "ann", "participants": {}}


class Zones:
    """A sandbox for each time zone, made when first asked for."""

    def __init__(self) -> None:
        self.drivers: dict[str, Driver] = {}

    def verdicts(
        self,
        triggers: Sequence[str],
        moment: datetime,
        zone: str,
        context: dict[str, Any] = CONTEXT,
    ) -> tuple[Verdict, ...]:
        if zone not in self.drivers:
            self.drivers[zone] = Driver(SandboxLimits(), timezone=zone, workers=1, spare=False)
        driver = self.drivers[zone]
        return driver.run(driver.sandbox.evaluate(triggers, context, now=moment, seed=1))

    def fired(self, trigger: str, moment: str, zone: str = "UTC") -> bool:
        now = datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo(zone))
        (verdict,) = self.verdicts([trigger], now, zone)
        assert isinstance(verdict, Fired | Quiet), verdict
        return isinstance(verdict, Fired)


@pytest.fixture(scope="module")
def zones() -> Iterator[Zones]:
    zones = Zones()
    yield zones
    for driver in zones.drivers.values():
        driver.close()


DAYS = [
    # the day, from midnight to midnight in the zone
    ("on_day(5, 1)", "2027-05-01T00:00", "2027-04-30T23:59"),
    ("on_day(5, 1)", "2027-05-01T23:59", "2027-05-02T00:00"),
    ("on_day(12, 31)", "2026-12-31T12:00", "2027-01-01T12:00"),
    # days around it, over the end of a year
    ("on_day(1, 2, {before: 7})", "2026-12-26T12:00", "2026-12-25T12:00"),
    ("on_day(1, 2, {before: 7})", "2027-01-02T12:00", "2027-01-03T12:00"),
    ("on_day(12, 30, {after: 3})", "2027-01-02T12:00", "2027-01-03T12:00"),
    ("on_day(3, 1, {before: 1})", "2028-02-29T12:00", "2028-02-28T12:00"),
    ("on_day(3, 1, {before: 1})", "2027-02-28T12:00", "2027-02-27T12:00"),
    # 29 February
    ("on_day(2, 29)", "2028-02-29T12:00", "2028-02-28T12:00"),
    ("on_day(2, 29)", "2027-02-28T12:00", "2027-03-01T12:00"),
    ("on_day(2, 29)", "2000-02-29T12:00", "2000-02-28T12:00"),
    ("on_day(2, 29)", "2100-02-28T12:00", "2100-03-01T12:00"),
    ("on_day(2, 29, {leap: 'after'})", "2027-03-01T12:00", "2027-02-28T12:00"),
    ("on_day(2, 29, {leap: 'after'})", "2028-02-29T12:00", "2028-03-01T12:00"),
    ("on_day(2, 29, {leap: 'never'})", "2028-02-29T12:00", "2027-02-28T12:00"),
    ("on_day(2, 29, {leap: 'after', before: 1})", "2027-02-28T12:00", "2027-02-27T12:00"),
    # days until
    ("days_until(5, 1) === 0", "2027-05-01T23:59", "2027-05-02T00:00"),
    ("days_until(5, 1) === 364", "2026-05-02T09:00", "2027-05-02T09:00"),
    ("days_until(2, 29) === 1", "2027-02-27T23:00", "2028-02-27T23:00"),
    ("days_until(2, 29, {leap: 'after'}) === 2", "2027-02-27T23:00", "2028-02-28T23:00"),
    ("days_until(2, 29, {leap: 'never'}) === 1461 + 365", "2099-02-28T12:00", "2096-02-28T12:00"),
    # the Chinese calendar: Mid-Autumn, New Year and its eve in months of 30 and of 29 days
    ("on_lunar_day(8, 15)", "2025-10-06T09:00", "2025-10-05T09:00"),
    ("on_lunar_day(8, 15)", "2026-09-25T09:00", "2026-09-26T09:00"),
    ("on_lunar_day(1, 1)", "2027-02-06T09:00", "2027-02-05T09:00"),
    ("on_lunar_day(1, 1)", "2026-02-17T09:00", "2026-02-16T09:00"),
    ("on_lunar_day(12, 30)", "2024-02-09T09:00", "2024-02-10T09:00"),
    ("on_lunar_day(12, 30)", "2025-01-28T09:00", "2025-01-29T09:00"),
    ("on_lunar_day(1, 1, {before: 10})", "2027-01-27T09:00", "2027-01-26T09:00"),
    ("on_lunar_day(12, 30, {after: 7})", "2025-02-04T09:00", "2025-02-05T09:00"),
    # 2025 has the leap month 6: an ordinary birthday comes once, one of the leap month in it
    ("on_lunar_day(6, 1)", "2025-06-25T09:00", "2025-07-25T09:00"),
    ("on_lunar_day(6, 1, {leap: true})", "2025-07-25T09:00", "2025-06-25T09:00"),
    ("on_lunar_day(6, 1, {leap: true})", "2026-07-14T09:00", "2026-07-15T09:00"),
    # the leap month 6 of 2025 has 29 days
    ("on_lunar_day(6, 30, {leap: true})", "2025-08-22T09:00", "2025-08-23T09:00"),
]


@pytest.mark.parametrize(("trigger", "on", "off"), DAYS)
def test_a_day_comes_when_it_should(zones: Zones, trigger: str, on: str, off: str) -> None:
    assert (zones.fired(trigger, on), zones.fired(trigger, off)) == (True, False)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Shanghai"])
def test_a_day_is_one_of_the_zone_and_not_of_utc(zones: Zones, zone: str) -> None:
    assert zones.fired("on_day(5, 1) && days_until(5, 1) === 0", "2027-05-01T00:30", zone)
    assert zones.fired("on_day(5, 1)", "2027-05-01T23:30", zone)
    assert zones.fired("on_lunar_day(1, 1) && lunar().day === 1", "2027-02-06T00:30", zone)
    assert zones.fired("on_lunar_day(1, 1)", "2027-02-06T23:30", zone)


@pytest.mark.parametrize(
    ("moment", "zone", "days"),
    [("2027-03-13T23:30", "America/New_York", 2), ("2027-03-27T23:30", "Europe/Berlin", 2)],
)
def test_a_day_of_23_hours_counts_as_one(zones: Zones, moment: str, zone: str, days: int) -> None:
    day = date.fromisoformat(moment[:10]) + timedelta(days=days)
    assert zones.fired(f"days_until({day.month}, {day.day}) === {days}", moment, zone)


def test_a_zone_that_left_out_a_day_does_not_move_the_others(zones: Zones) -> None:
    # Samoa had no 30 December 2011.
    assert zones.fired(
        "days_until(12, 31) === 2 && on_day(12, 31, {before: 2})",
        "2011-12-29T12:00",
        "Pacific/Apia",
    )


def lunar_verdicts(zones: Zones, first_year: int, last_year: int) -> Verdict:
    days: list[list[int]] = []
    for year in range(first_year, last_year + 1):
        for month in months_of(year):
            first_day = [month.first.year, month.first.month - 1, month.first.day]
            days.append([*first_day, year, month.number, int(month.is_leap), month.days])
    source = """
      const same = (date, year, month, day, leap) => {
        const is = lunar(date);
        return is.year === year && is.month === month && is.day === day && is.leap === leap;
      };
      context.participants.days.length > 0 && context.participants.days.every(([y, m, d, year, month, leap, days]) =>
        same(new Date(y, m, d, 0, 30), year, month, 1, leap === 1)
        && same(new Date(y, m, d + days - 1, 23, 30), year, month, days, leap === 1))
    """
    context = CONTEXT | {"participants": {"days": days}}
    (verdict,) = zones.verdicts([source], datetime(2026, 7, 17, tzinfo=UTC), "UTC", context)
    return verdict


@pytest.mark.parametrize("first", range(1900, 2101, 50))
def test_both_programs_have_the_same_chinese_calendar(zones: Zones, first: int) -> None:
    assert isinstance(lunar_verdicts(zones, first, min(first + 49, 2100)), Fired)


def test_both_tables_of_the_chinese_calendar_are_the_same() -> None:
    realm = Path(__file__).parents[2] / "sandbox" / "worker" / "realm" / "calendar.js"
    table = (
        realm.read_text(encoding="utf-8").partition("const LUNAR_YEARS = (")[2].partition(")")[0]
    )
    assert "".join(table.replace("'", "").replace("+", "").split()) == "".join(
        nlp.holidays._YEARS.split()
    )


def falls_on(day: date, month: int, number: int, leap: str) -> bool:
    """Whether a yearly day falls on this one, decided without arithmetic on years."""
    if (month, number) != (2, 29) or leap == "never" or (day.month, day.day) == (2, 29):
        return (day.month, day.day) == (month, number)
    is_leap_year = (date(day.year, 3, 1) - timedelta(days=1)).day == 29
    substitutes = {"before": (2, 28), "after": (3, 1)}
    return not is_leap_year and (day.month, day.day) == substitutes[leap]


def falls_on_lunar(day: date, month: int, number: int, *, leap: bool) -> bool:
    """The same for a day of the Chinese calendar."""
    lunar = _lunar_date_of(day)
    assert lunar is not None
    months = _months_of(lunar.year)
    has_leap = any(candidate.number == month and candidate.is_leap for candidate in months)
    (own,) = (
        month for month in months if (month.number, month.is_leap) == (lunar.month, lunar.is_leap)
    )
    is_day = lunar.day == number or (number == 30 and own.days == 29 and lunar.day == 29)
    return lunar.month == month and lunar.is_leap == (leap and has_leap) and is_day


_lunar_date_of = cache(lunar_date_of)
_months_of = cache(months_of)


@dataclass(frozen=True, slots=True)
class Case:
    """A trigger that asks for a day of one of the calendars, and what it asks."""

    calendar: Literal["sun", "moon"]
    month: int
    number: int
    before: int
    after: int
    leap: Any

    @property
    def trigger(self) -> str:
        around = f"before: {self.before}, after: {self.after}"
        if self.calendar == "sun":
            return f"on_day({self.month}, {self.number}, {{{around}, leap: '{self.leap}'}})"
        return f"on_lunar_day({self.month}, {self.number}, {{{around}, leap: {str(self.leap).lower()}}})"

    def comes_on(self, today: date) -> bool:
        """Whether the day, or one of the days around it, is today."""
        days = [
            today + timedelta(days=distance) for distance in range(-self.after, self.before + 1)
        ]
        if self.calendar == "sun":
            return any(falls_on(day, self.month, self.number, self.leap) for day in days)
        return any(falls_on_lunar(day, self.month, self.number, leap=self.leap) for day in days)


@pytest.mark.parametrize("count", [8, pytest.param(25, marks=pytest.mark.full)])
@pytest.mark.parametrize("zone", ZONES)
def test_days_come_as_a_second_computation_says(zones: Zones, zone: str, count: int) -> None:
    dice = random.Random(zone)
    moments: list[datetime] = []
    for _ in range(count):
        day = date(dice.randrange(1990, 2090), 1, 1) + timedelta(days=dice.randrange(366))
        moments.append(datetime.combine(day, time(dice.randrange(24), 17), ZoneInfo(zone)))
    days = [(2, 29), (2, 28), (3, 1), (12, 31), (1, 1), (5, 1)]
    cases: list[Case] = []
    for _ in range(120):
        before, after = dice.choice(((0, 0), (40, 0), (0, 40), (90, 90)))
        month, number = dice.choice(days)
        rule = dice.choice(("before", "after", "never"))
        cases.append(Case("sun", month, number, before, after, rule))
        lunar_month = dice.randrange(1, 13)
        lunar_day = dice.choice((1, 15, 29, 30))
        is_leap = dice.random() < 0.5
        cases.append(Case("moon", lunar_month, lunar_day, before, after, is_leap))
    triggers = [case.trigger for case in cases]
    fired = 0
    for moment in moments:
        verdicts = zones.verdicts(triggers, moment, zone)
        for case, verdict in zip(cases, verdicts, strict=True):
            expected = case.comes_on(moment.date())
            assert isinstance(verdict, Fired) == expected, f"{case.trigger} at {moment}: {verdict}"
            fired += expected
    assert 12 * count < fired < count * len(cases) / 2


@pytest.mark.parametrize("zone", ZONES)
def test_days_until_are_those_of_the_calendar(zones: Zones, zone: str) -> None:
    dice = random.Random(f"until {zone}")
    moments = [
        datetime.combine(
            date(2000, 1, 1) + timedelta(days=dice.randrange(30_000)), time(23, 59), ZoneInfo(zone)
        )
        for _ in range(15)
    ]
    for moment in moments:
        months = [(dice.randrange(1, 13), dice.randrange(1, 29)) for _ in range(20)]
        triggers: list[str] = []
        for month, number in months:
            count = 0
            day = moment.date()
            while (day.month, day.day) != (month, number):
                day += timedelta(days=1)
                count += 1
            triggers.append(f"days_until({month}, {number}) === {count}")
        row = zones.verdicts(triggers, moment, zone)
        assert all(isinstance(verdict, Fired) for verdict in row), (moment, triggers, row)


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ("on_day(0, 15)", "on_day: the month must be a whole number from 1 to 12, not 0"),
        ("on_day(13, 1)", "from 1 to 12, not 13"),
        ("on_day(4, 31)", "on_day: the day of month 4 must be a whole number from 1 to 30, not 31"),
        ("on_day('5', 1)", "not a value of the type string"),
        ("on_day(5)", "not a value of the type undefined"),
        ("on_day(5, 1.5)", "not 1.5"),
        (
            "on_day(5, 1, {befor: 7})",
            "there is no option befor; the options are before, after, leap",
        ),
        ("on_day(5, 1, {before: -1})", "before must be a whole number from 0 to 366, not -1"),
        ("on_day(5, 1, {leap: 'skip'})", "leap must be 'before', 'after' or 'never'"),
        ("on_day(5, 1, 7)", "the third argument must be an object with the options"),
        (
            "days_until(2, 30)",
            "days_until: the day of month 2 must be a whole number from 1 to 29, not 30",
        ),
        ("days_until(5, 1, {before: 2})", "there is no option before; the options are leap"),
        (
            "on_lunar_day(8, 31)",
            "on_lunar_day: the day must be a whole number from 1 to 30, not 31",
        ),
        (
            "on_lunar_day(8, 15, {leap: 'before'})",
            "leap must be true, for a day of a leap month, or false",
        ),
        ("lunar('2026-01-01')", "lunar: give a Date, such as new Date()"),
        ("lunar(new Date('x'))", "lunar: the date is not valid"),
        (
            "lunar(new Date(1899, 0, 1)).day",
            "lunar: the Chinese calendar is known from 31 January 1900",
        ),
        ("new on_day(5, 1)", "on_day is not a constructor"),
    ],
)
def test_a_call_that_cannot_be_meant_fails_and_says_why(
    driver: Driver, trigger: str, message: str
) -> None:
    now = datetime(2026, 7, 17, tzinfo=UTC)
    (verdict,) = driver.run(driver.sandbox.evaluate([trigger], CONTEXT, now=now, seed=1))
    assert isinstance(verdict, Failed)
    assert verdict.kind == "thrown"
    assert message in str(verdict.message)


def test_beyond_the_table_no_lunar_day_comes_and_nothing_fails(zones: Zones) -> None:
    for moment in ("1899-12-31T12:00", "2101-01-29T12:00", "2500-01-01T12:00"):
        assert not zones.fired("on_lunar_day(1, 1, {before: 366})", moment)
    assert zones.fired("on_lunar_day(12, 30)", "2101-01-28T12:00")


@pytest.mark.parametrize(
    "attack",
    [
        "const d = new Date(); Object.defineProperty(d, 'getTime', { value: () => 0 }); lunar(d).year === 2026",
        "const o = lunar(); o.year = 0; lunar().year === 2026",
        "lunar.leaked === undefined && Object.isFrozen(on_day) && Object.isFrozen(on_lunar_day)",
        "const seen = []; on_day(5, 1, new Proxy({}, { ownKeys() { seen.push(1); return [] } })); seen.length === 1",
    ],
)
def test_a_trigger_cannot_change_the_calendar(driver: Driver, attack: str) -> None:
    now = datetime(2026, 7, 17, tzinfo=UTC)
    (verdict,) = driver.run(driver.sandbox.evaluate([attack], CONTEXT, now=now, seed=1))
    assert isinstance(verdict, Fired), verdict


def test_the_first_and_the_last_day_of_the_table() -> None:
    assert lunar_date_of(date(1900, 1, 30)) is None
    assert lunar_date_of(date(1900, 1, 31)) == LunarDate(1900, 1, 1)
    assert lunar_date_of(date(2101, 1, 28)) == LunarDate(2100, 12, 29)
    assert lunar_date_of(date(2101, 1, 29)) is None
