"""Random values for the blanks of the embedded data set, and their formatting by CLDR.

Imports Babel; `t2t_lite.problems.locale` imports this module only to generate data.
"""

import calendar
import dataclasses
import datetime
import json
import pathlib
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from babel import Locale, dates, lists, numbers, units

_VALUES: dict[str, Any] = json.loads(
    pathlib.Path(__file__).with_name("locale_values.json").read_text(encoding="utf-8")
)
NAMES, LANGUAGES, CURRENCIES = (_VALUES[kind] for kind in ("names", "languages", "currencies"))
CITIES = _VALUES["cities"]  # CLDR has names of cities as examples of time zones
MONTHS = range(1, 13)
WEEKDAYS = range(7)

# The French preposition of place for each country, which means both "in" and "to".
FRENCH_PLACE = {
    country: word for word, found in _VALUES["french_place"].items() for country in found
}
COUNTRIES = sorted(FRENCH_PLACE)
# All other countries take no article: "in" or "nach" and the name.
GERMAN_PLACE = _VALUES["german_place"]
ENGLISH_WITH_ARTICLE = _VALUES["english_with_article"]

# Units of each kind of measure, with their smallest and largest value. Values of units that are
# shown in short form are never 1: Babel confuses the German long and short singular ("1 Meilen").
MEASURES = _VALUES["measures"]
# Durations: seconds of a unit, and the greatest number that CLDR does not round to the next unit.
WAITS = ((60, 45), (3600, 20))
PERIODS = ((86400, 5), (7 * 86400, 3), (30 * 86400, 10), (365 * 86400, 10))


@dataclasses.dataclass(frozen=True)
class Slot:
    """A kind of blank.

    Attributes:
        draw: returns a random value, independent of the language.
        show: formats a value for a locale, in the frame's style ("" by default).
    """

    draw: Callable[[random.Random], Any]
    show: Callable[[Any, Locale, str], str]


@dataclasses.dataclass(frozen=True)
class Filled:
    """A value in one locale, for `str.format`: `{date:long}` formats it in the style "long"."""

    slot: Slot
    value: Any
    locale: Locale

    def __format__(self, style: str) -> str:
        return self.slot.show(self.value, self.locale, style)


def draw(kinds: Iterable[str], rng: random.Random) -> dict[str, Any]:
    """Draws a value of each kind of slot."""
    return {kind: SLOTS[kind].draw(rng) for kind in kinds}


def fill(text: str, values: Mapping[str, Any], locale: Locale) -> str:
    """Fills the blanks of a frame's text with the values, formatted for the locale."""
    blanks = {kind: Filled(SLOTS[kind], value, locale) for kind, value in values.items()}
    return text.format(**blanks)


# ---- draws


def _one_of(pool: Sequence[Any]) -> Callable[[random.Random], Any]:
    return lambda rng: rng.choice(pool)


def _some_of(pool: Sequence[Any]) -> Callable[[random.Random], list[Any]]:
    return lambda rng: rng.sample(pool, rng.randint(2, 3))


def _whole(most_digits: int) -> Callable[[random.Random], int]:
    """Draws the number of digits first, so that short numbers are as frequent as long ones."""
    return lambda rng: rng.randrange(10 ** rng.randint(1, most_digits))


def _draw_weekdays(rng: random.Random) -> list[int]:
    return sorted(rng.sample(WEEKDAYS, rng.randint(2, 3)))


def _draw_version(rng: random.Random) -> str:
    return f"{rng.randint(1, 12)}.{rng.randint(0, 9)}.{rng.randint(0, 9)}"


def _draw_order(rng: random.Random) -> str:
    return str(rng.randint(10000, 99999))


def _draw_date(rng: random.Random) -> datetime.date:
    """Draws any day but the first of a month, which CLDR does not format correctly in French."""
    year, month = rng.randint(2000, 2035), rng.randint(1, 12)
    return datetime.date(year, month, rng.randint(2, calendar.monthrange(year, month)[1]))


def _draw_time(rng: random.Random) -> datetime.time:
    return datetime.time(rng.randrange(24), rng.randrange(60))


def _draw_moment(rng: random.Random) -> datetime.datetime:
    return datetime.datetime.combine(
        _draw_date(rng), _draw_time(rng).replace(second=rng.randrange(60))
    )


def _draw_days(rng: random.Random) -> tuple[datetime.date, datetime.date]:
    start = _draw_date(rng)
    end = start + datetime.timedelta(days=rng.randint(2, 30))
    return start, end.replace(day=max(end.day, 2))


def _draw_hours(rng: random.Random) -> tuple[datetime.datetime, datetime.datetime]:
    start = datetime.datetime(2000, 1, 2, rng.randint(6, 18), rng.choice((0, 15, 30, 45)))
    return start, start + datetime.timedelta(minutes=30 * rng.randint(2, 10))


def _duration(pool: Sequence[tuple[int, int]]) -> Callable[[random.Random], int]:
    def draw(rng: random.Random) -> int:
        seconds, most = rng.choice(pool)
        return seconds * rng.randint(1, most)

    return draw


def _draw_number(rng: random.Random) -> Decimal:
    return Decimal(rng.randint(1, 10 ** rng.randint(2, 5))) / rng.choice((1, 10, 100))


def _draw_scientific(rng: random.Random) -> Decimal:
    return Decimal(rng.randint(101, 999)).scaleb(rng.randint(2, 10))


def _draw_percent(rng: random.Random) -> Decimal:
    return Decimal(rng.choice((rng.randint(1, 999), 10 * rng.randint(1, 99)))) / 1000


def _draw_millions(rng: random.Random) -> int:
    return rng.randint(11, 999) * 10 ** rng.choice((5, 8))


def _draw_price(rng: random.Random) -> tuple[Decimal, str]:
    whole = rng.randint(2, 10 ** rng.randint(1, 4))
    cents = rng.choice((0, 50, 95, 99, rng.randrange(100)))
    return whole + Decimal(cents) / 100, rng.choice(CURRENCIES)


def _draw_revenue(rng: random.Random) -> tuple[int, str]:
    return _draw_millions(rng), rng.choice(("CHF", "EUR", "GBP", "USD"))


def _measure(pool: Sequence[tuple[str, int, int]]) -> Callable[[random.Random], Any]:
    def draw(rng: random.Random) -> tuple[Decimal, str]:
        unit, smallest, largest = rng.choice(pool)
        tenths = rng.randint(10 * smallest, 10 * largest)
        return (Decimal(tenths // 10) if rng.random() < 0.5 else Decimal(tenths) / 10), unit

    return draw


# ---- formatting by CLDR


def _show_text(value: str, locale: Locale, style: str) -> str:
    return value


def _show_date(value: datetime.date, locale: Locale, style: str) -> str:
    if style in ("short", "medium", "long", "full"):
        return dates.format_date(value, style, locale=locale)
    # Formatting by skeleton needs a time of day, even if the pattern does not show it.
    midnight = datetime.datetime.combine(value, datetime.time())
    return dates.format_skeleton(style, midnight, locale=locale)


def _show_time(value: datetime.time, locale: Locale, style: str) -> str:
    return dates.format_time(value, "short", locale=locale)


def _show_moment(value: datetime.datetime, locale: Locale, style: str) -> str:
    return dates.format_datetime(value, style, locale=locale)


def _show_days(value: tuple[datetime.date, datetime.date], locale: Locale, style: str) -> str:
    return dates.format_interval(*value, skeleton="yMMMd", locale=locale)


def _show_hours(
    value: tuple[datetime.datetime, datetime.datetime], locale: Locale, style: str
) -> str:
    skeleton = "hm" if locale.language == "en" else "Hm"
    return dates.format_interval(*value, skeleton=skeleton, locale=locale)


def _show_duration(value: int, locale: Locale, style: str) -> str:
    """Styles: "" ("3 days"), "in" ("in 3 days") and "ago" ("3 days ago")."""
    delta = datetime.timedelta(seconds=-value if style == "ago" else value)
    return dates.format_timedelta(delta, add_direction=bool(style), locale=locale)


def _show_month(value: int, locale: Locale, style: str) -> str:
    return locale.months["stand-alone"]["wide"][value]


def _show_weekday(value: int, locale: Locale, style: str) -> str:
    return locale.days["stand-alone"]["wide"][value]


def _show_count(value: int, locale: Locale, style: str) -> str:
    """Style: "# file|# files", the forms for the CLDR plural categories "one" and "other"."""
    one, other = style.split("|")
    form = one if locale.plural_form(value) == "one" else other
    return form.replace("#", numbers.format_decimal(value, locale=locale))


def _show_number(value: Decimal, locale: Locale, style: str) -> str:
    return numbers.format_decimal(value, locale=locale)


def _show_scientific(value: Decimal, locale: Locale, style: str) -> str:
    return numbers.format_scientific(value, locale=locale, decimal_quantization=False)


def _show_percent(value: Decimal, locale: Locale, style: str) -> str:
    return numbers.format_percent(value, locale=locale, decimal_quantization=False)


def _show_millions(value: int, locale: Locale, style: str) -> str:
    return numbers.format_compact_decimal(
        value, format_type="long" if style == "long" else "short", locale=locale, fraction_digits=1
    )


def _show_price(value: tuple[Decimal, str], locale: Locale, style: str) -> str:
    return numbers.format_currency(
        *value, locale=locale, format_type="name" if style == "name" else "standard"
    )


def _show_revenue(value: tuple[int, str], locale: Locale, style: str) -> str:
    return numbers.format_compact_currency(*value, locale=locale, fraction_digits=1)


def _show_measure(value: tuple[Decimal, str], locale: Locale, style: str) -> str:
    return units.format_unit(*value, "short" if style == "short" else "long", locale=locale)


def _show_language(value: str, locale: Locale, style: str) -> str:
    return locale.languages[value]


def _show_city(value: str, locale: Locale, style: str) -> str:
    # CLDR omits names that equal the zone's.
    zone = locale.time_zones.get(value, {})
    return zone.get("city") or value.rpartition("/")[2].replace("_", " ")


def _show_route(value: Sequence[str], locale: Locale, style: str) -> str:
    return "–".join(_show_city(city, locale, style) for city in value)


def _show_country(value: str, locale: Locale, style: str) -> str:
    """Styles: "" (the bare name), "in" and "to" (with preposition and article)."""
    name = locale.territories[value]
    if not style:
        return name
    if locale.language == "fr":
        return f"{FRENCH_PLACE[value]} {name}"
    if locale.language == "de":
        preposition = {"in": "in", "to": "nach"}[style]
        return GERMAN_PLACE.get(value, {}).get(style) or f"{preposition} {name}"
    return f"{style} the {name}" if value in ENGLISH_WITH_ARTICLE else f"{style} {name}"


def _list_of(show: Callable[[Any, Locale, str], str]) -> Callable[[Any, Locale, str], str]:
    """Styles: "" ("A, B, and C") and "or" ("A, B, or C")."""

    def show_all(values: Sequence[Any], locale: Locale, style: str) -> str:
        shown = [show(value, locale, "") for value in values]
        return lists.format_list(shown, "or" if style == "or" else "standard", locale=locale)

    return show_all


SLOTS = {
    "cities": Slot(_some_of(CITIES), _list_of(_show_city)),
    "city": Slot(_one_of(CITIES), _show_city),
    "count": Slot(_whole(most_digits=4), _show_count),
    "countries": Slot(_some_of(COUNTRIES), _list_of(_show_country)),
    "country": Slot(_one_of(COUNTRIES), _show_country),
    "date": Slot(_draw_date, _show_date),
    "days": Slot(_draw_days, _show_days),
    "few": Slot(_one_of(range(1, 13)), _show_count),
    "hours": Slot(_draw_hours, _show_hours),
    "language": Slot(_one_of(LANGUAGES), _show_language),
    "languages": Slot(_some_of(LANGUAGES), _list_of(_show_language)),
    "millions": Slot(_draw_millions, _show_millions),
    "moment": Slot(_draw_moment, _show_moment),
    "month": Slot(_one_of(MONTHS), _show_month),
    "name": Slot(_one_of(NAMES), _show_text),
    "names": Slot(_some_of(NAMES), _list_of(_show_text)),
    "number": Slot(_draw_number, _show_number),
    "order": Slot(_draw_order, _show_text),
    "percent": Slot(_draw_percent, _show_percent),
    "period": Slot(_duration(PERIODS), _show_duration),
    "price": Slot(_draw_price, _show_price),
    "revenue": Slot(_draw_revenue, _show_revenue),
    "route": Slot(lambda rng: rng.sample(CITIES, 2), _show_route),
    "scientific": Slot(_draw_scientific, _show_scientific),
    "time": Slot(_draw_time, _show_time),
    "version": Slot(_draw_version, _show_text),
    "wait": Slot(_duration(WAITS), _show_duration),
    "weekday": Slot(_one_of(WEEKDAYS), _show_weekday),
    "weekdays": Slot(_draw_weekdays, _list_of(_show_weekday)),
} | {kind: Slot(_measure(pool), _show_measure) for kind, pool in MEASURES.items()}
