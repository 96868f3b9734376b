"""Pages of past revisions and instants: the requested moment, the bar that shows it, and the slider over days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from urllib.parse import urlencode

from django.http import HttpRequest, QueryDict
from django.utils import formats, timezone
from django.utils.translation import gettext as _

from apps.core import clock
from apps.core.errors import FieldProblem, Invalid
from apps.policies.selectors import read_moment
from apps.priorities.selectors import Moment
from apps.priorities.selectors.past import PastDays, list_past_days
from apps.priorities.sentences import text_of

AT, DAY, ON = "at", "day", "on"
_MINUTE = "%Y-%m-%dT%H:%M"


@dataclass(frozen=True)
class PastDayPicker:
    """Slider over days, and field for a day and time. on: shown day as ordinal; kept: other query parameters."""

    days: PastDays
    shown: datetime
    kept: Sequence[tuple[str, str]]

    @property
    def on(self) -> int:
        return min(max(timezone.localtime(self.shown).date().toordinal(), self.days.first), self.days.last)

    @property
    def stops(self) -> Sequence[tuple[int, str]]:
        """(day, label) of days with a published revision, for the last revision of each day."""
        words = _("Revision %(n)s")
        return [(day, words % {"n": number}) for day, number in dict(self.days.revisions).items()]

    @property
    def stored(self) -> str:
        return " ".join(map(str, sorted(self.days.stored)))

    @property
    def label(self) -> str:
        return formats.date_format(date.fromordinal(self.on), "j M Y")

    @property
    def first_label(self) -> str:
        return formats.date_format(date.fromordinal(self.days.first), "j M Y")

    @property
    def earliest_local(self) -> str:
        """First selectable minute, for the field."""
        return timezone.localtime(self.days.first_at + timedelta(minutes=1)).strftime(_MINUTE)

    @property
    def latest_local(self) -> str:
        return timezone.localtime(clock.now()).strftime(_MINUTE)

    @property
    def local(self) -> str:
        """Shown instant in the page's time zone, for the field."""
        return timezone.localtime(self.shown).strftime(_MINUTE)


@dataclass(frozen=True)
class TimeBar:
    """Content of the bar of a past moment."""

    moment: Moment
    shown: datetime
    numbers_key: str
    numbers: str
    look_back: PastDayPicker | None
    now_url: str


def read_moment_param(request: HttpRequest) -> int | datetime | None:
    """`?at=`: a revision or an instant; None is now."""
    try:
        return read_moment(request.GET.get(AT))
    except ValueError as error:
        message = _("The address contains a time that can’t be read: write it like 2026-01-31T12:00:00Z.")
        raise Invalid(message, fields=[FieldProblem(AT, str(error))]) from None


def day_redirect(request: HttpRequest) -> str | None:
    """URL with the instant for a day, or a day and time, chosen in the page's time zone; None if none was chosen.

    A day of the slider is its end; today is now.
    """
    if day := request.GET.get(ON):
        return _address_of_day(request, day)
    typed = request.GET.get(DAY)
    if not typed:
        return None
    try:
        local = datetime.fromisoformat(typed)
        instant = local if local.tzinfo else timezone.make_aware(local)
    except (ValueError, OverflowError):
        raise _no_day() from None
    return _address(request.path, _kept(request), instant)


def _address_of_day(request: HttpRequest, day: str) -> str:
    """day: its ordinal, as the slider sends it, or a date."""
    try:
        chosen = date.fromordinal(int(day)) if day.isdecimal() else date.fromisoformat(day)
        instant = timezone.make_aware(datetime.combine(chosen, time(23, 59, 59)))
    except (ValueError, OverflowError):
        raise _no_day() from None
    return _address(request.path, _kept(request), instant if instant < clock.now() else None)


def moment_query(at: int | datetime | None) -> str:
    """Query string for other pages of the same moment."""
    return "" if at is None else f"?{urlencode({AT: moment_text(at)})}"


def moment_text(at: int | datetime) -> str:
    return str(at) if isinstance(at, int) else at.isoformat().replace("+00:00", "Z")


def look_back(request: HttpRequest, policy: str, shown: datetime | None = None) -> PastDayPicker | None:
    """None if there is no past day to show."""
    now = clock.now()
    days = list_past_days(policy_slug=policy, zone=timezone.get_current_timezone(), now=now)
    kept = [(name, str(value)) for name, values in _kept(request).lists() for value in values]
    return None if days is None else PastDayPicker(days, shown or now, kept)


def _kept(request: HttpRequest) -> QueryDict:
    kept = request.GET.copy()
    for name in (AT, DAY, ON, "cursor", "toggle"):
        kept.pop(name, None)
    return kept


def time_bar(request: HttpRequest, moment: Moment | None, policy: str) -> TimeBar | None:
    if moment is None:
        return None
    # Key and sentences about the origin of the numbers; numbers of different moments are never mixed.
    notes = moment.notes
    key, numbers = notes[0].key.removeprefix("past."), text_of(notes)
    shown = moment.asked if isinstance(moment.asked, datetime) else moment.since
    return TimeBar(
        moment=moment,
        shown=shown,
        numbers_key=key,
        numbers=numbers,
        look_back=look_back(request, policy, shown),
        now_url=_address(request.path, _kept(request)),
    )


def _address(path: str, kept: QueryDict, at: datetime | None = None) -> str:
    if at is not None:
        kept[AT] = at.isoformat()
    return f"{path}?{kept.urlencode()}" if kept else path


def _no_day() -> Invalid:
    message = _("The address contains a time that is not a date and time.")
    return Invalid(message, fields=[FieldProblem(AT, "is not a date and time")])
