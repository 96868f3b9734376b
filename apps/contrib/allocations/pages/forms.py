"""Forms for allocations, capacity and dates of shares; and the period or month that a page's query names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode
from uuid import UUID
from zoneinfo import ZoneInfo

from django import forms
from django.conf import settings
from django.http import HttpRequest
from django.utils import formats
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.accounts.actor import Actor
from apps.contrib.allocations.capacities import MOST_CAPACITY_PER_HOUR
from apps.contrib.allocations.periods import DAY, FIRST_DAY, LAST_DAY, Period, day_of, whole_year
from apps.contrib.allocations.terms import LONGEST_ALLOCATION_REASON
from apps.contrib.allocations.units import policy_units
from apps.core.errors import NotFound, problem_sentence
from apps.core.typed_numbers import read_amount
from apps.policies.operations.allocation_edits import MOST_ALLOCATED_AMOUNT
from apps.policies.selectors import get_policy
from apps.policies.units import CORE_HOUR, LONGEST_SYMBOL, Unit
from apps.web import bounds
from apps.web.changes.share_input import read_shares
from apps.web.shell.forms import RefusableForm, choice_field, date_input, name_field, reason_field, text_input

NUMBER = "number"
AT_END_CHOICES = (
    ("keep", _("keep and flag")),
    ("zero", _("0 shares")),
    (NUMBER, _("other shares:")),
    ("archive", _("Archive")),
)


def typed_amount(value: float) -> str:
    """Text that `read_amount` reads as the same number; three decimals would look like a group of digits."""
    text = f"{Decimal(repr(value)):f}".removesuffix(".0")
    decimals = text.partition(".")[2]
    return f"{text}0" if decimals and len(decimals) % 3 == 0 else text


def _day(label: Any, *, required: bool = True, help_text: Any = "") -> forms.DateField:
    return forms.DateField(label=label, required=required, help_text=help_text, widget=date_input())


def _decimal(label: Any, help_text: Any = "") -> forms.CharField:
    """An optional number as text."""
    widget = text_input(inputmode="decimal")
    return forms.CharField(label=label, max_length=bounds.NUMBER, required=False, help_text=help_text, widget=widget)


class AmountField(forms.CharField):
    """A number from 0 to `maximum`, with or without groups of digits."""

    def __init__(self, maximum: float, **more: Any) -> None:
        super().__init__(max_length=bounds.NUMBER, widget=text_input(inputmode="decimal"), **more)
        self._maximum = maximum

    def clean(self, value: Any) -> Any:
        if not self.required and not str(value or "").strip():
            return None
        try:
            amount = read_amount(super().clean(value))
        except ValueError as error:
            raise forms.ValidationError(str(error), code="number") from None
        if amount > self._maximum:
            raise forms.ValidationError(_("That is too large"), code="large")
        return amount


class _AllocationsForm(RefusableForm):
    """Base of this feature's forms: its services report problems as sentence fragments."""

    ids = "id_%s"  # differs between two forms on one page

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{"auto_id": self.ids, **more})

    def field_message(self, message: str) -> str:
        return problem_sentence(message)


class AllocationForm(_AllocationsForm):
    """An amount for a period of days, and the reason."""

    amount = AmountField(MOST_ALLOCATED_AMOUNT, label=_("Amount"))
    starts_on = _day(_("First day"))
    ends_on = _day(_("Last day"))
    reason = reason_field(LONGEST_ALLOCATION_REASON)


class _WithUnit(_AllocationsForm):
    """Chooses one of the units of a policy; hidden where there is only one. ordered: all fields as shown."""

    ordered: tuple[str, ...] = ()

    def __init__(self, *args: Any, units: Sequence[Unit] = (CORE_HOUR,), **more: Any) -> None:
        super().__init__(*args, **more)
        choices = [(unit.symbol, f"{unit.name} ({unit.symbol})") for unit in units]
        self.fields["unit"] = choice_field(_("Unit"), choices, required=False, initial=CORE_HOUR.symbol)
        if len(choices) == 1:
            self.fields["unit"].widget = forms.HiddenInput()
        self.order_fields(self.ordered)

    def clean_unit(self) -> str:
        return str(self.cleaned_data["unit"] or CORE_HOUR.symbol)


class EntryAllocationForm(_WithUnit, AllocationForm):
    """An allocation to one entry, in one of the units."""

    ordered: tuple[str, ...] = ("amount", "unit", "starts_on", "ends_on", "reason")


class RequestForm(EntryAllocationForm):
    """A request for an allocation, in one of the units."""

    ids = "request_%s"


class AnswerForm(_AllocationsForm):
    """The answer to a request: what is granted, and a comment, which a decline needs."""

    ids = "answer_%s"

    amount = AmountField(MOST_ALLOCATED_AMOUNT, label=_("Amount"), required=False)
    starts_on = _day(_("First day"), required=False)
    ends_on = _day(_("Last day"), required=False)
    text = forms.CharField(
        label=_("Comment"), max_length=LONGEST_ALLOCATION_REASON, required=False, widget=text_input()
    )

    field_names = {"reason": "text"}  # noqa: RUF012


class NewAllocationForm(EntryAllocationForm):
    """An allocation to the entry with a path."""

    entry = name_field(_("Entry"), bounds.ENTRY, _("Path, such as /physics; / is the root."), list="places")
    ordered = ("entry", "amount", "unit", "starts_on", "ends_on", "reason")


class WithdrawForm(_AllocationsForm):
    ids = "withdraw_%s"

    reason = forms.CharField(label=_("Reason"), max_length=LONGEST_ALLOCATION_REASON, widget=text_input())


class CapacityForm(_AllocationsForm):
    """What a site has in a period of days, in units an hour."""

    per_hour = AmountField(MOST_CAPACITY_PER_HOUR, label=_("Amount an hour"), help_text=_("Cores, for core-hours."))
    site = name_field(_("Site"), bounds.SITE, _("Leave empty if there is only one site."), required=False)
    starts_on = _day(_("First day"))
    ends_on = _day(_("Last day"), required=False, help_text=_("Leave empty for no end."))
    note = forms.CharField(label=_("Note"), max_length=LONGEST_ALLOCATION_REASON, required=False, widget=text_input())
    reason = reason_field(LONGEST_ALLOCATION_REASON)


class NewCapacityForm(_WithUnit, CapacityForm):
    """A new capacity, in one of the units."""

    ordered = ("per_hour", "unit", "site", "starts_on", "ends_on", "note", "reason")


class DatesForm(_AllocationsForm):
    """First and last day of an entry's shares, and what happens to the shares after the last day."""

    starts_on = _day(_("First day"), required=False)
    shares = _decimal(_("Shares from the first day"), _("Leave empty to keep them."))
    ends_on = _day(_("Last day"), required=False, help_text=_("Leave empty for no end."))
    at_end = choice_field(_("After expiry"), AT_END_CHOICES, required=False, initial="keep")
    shares_then = _decimal(_("Other shares after expiry"))
    reason = forms.CharField(
        label=_("Reason"),
        max_length=bounds.REASON,
        help_text=_("Shown in the history to those affected."),
        widget=text_input(),
    )
    base_revision = forms.IntegerField(min_value=1, widget=forms.HiddenInput)

    field_names = {"operations[0].dates": "ends_on"}  # noqa: RUF012
    ids = "dates_%s"

    def clean_shares(self) -> float | None:
        return _number(self.cleaned_data["shares"])

    def clean_shares_then(self) -> float | None:
        return _number(self.cleaned_data["shares_then"])

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean() or self.cleaned_data
        first, last = cleaned.get("starts_on"), cleaned.get("ends_on")
        if first is None and last is None and not {"starts_on", "ends_on"} & set(self.errors):
            self._refuse("ends_on", _("Enter a first or a last day, or remove the dates."), "no_day")
        if first and last and last < first:
            self._refuse("ends_on", _("The last day is before the first."), "ends_before_it_begins")
        if cleaned.get("shares") is not None and first is None:
            self._refuse("starts_on", _("Enter the first day."), "no_first_day")
        if cleaned.get("at_end") == NUMBER and cleaned.get("shares_then") is None and "shares_then" not in self.errors:
            self._refuse("shares_then", _("Enter the shares."), "no_shares_then")
        if cleaned.get("at_end") not in ("", "keep", None) and last is None and "ends_on" not in self.errors:
            self._refuse("ends_on", _("Enter the last day."), "no_last_day")
        return cleaned

    def _refuse(self, name: str, message: Any, code: str) -> None:
        self.add_error(name, forms.ValidationError(message, code=code))

    @property
    def dates(self) -> dict[str, Any] | None:
        """Dates in the form of the operation `set_dates`."""
        cleaned_data = self.cleaned_data
        at_end = cleaned_data["shares_then"] if cleaned_data["at_end"] == NUMBER else cleaned_data["at_end"] or "keep"
        return {
            "starts_on": cleaned_data["starts_on"].isoformat() if cleaned_data["starts_on"] else None,
            "ends_on": cleaned_data["ends_on"].isoformat() if cleaned_data["ends_on"] else None,
            "shares": cleaned_data["shares"],
            "at_end": at_end,
        }


class RemoveDatesForm(DatesForm):
    """Removal of an entry's dates: the other fields are ignored."""

    def clean(self) -> dict[str, Any] | None:
        for name in ("starts_on", "shares", "ends_on", "at_end", "shares_then"):
            self.errors.pop(name, None)
        return self.cleaned_data

    @property
    def dates(self) -> dict[str, Any] | None:
        return None


def _number(text: str) -> float | None:
    if not text:
        return None
    shares = read_shares(text)
    if isinstance(shares, str):
        raise forms.ValidationError(_("Enter a number, such as 20 or 0.5."), code="number")
    return shares


class DraftForm(_AllocationsForm):
    """A draft of shares from allocations: its reason, and whether the shares expire with the allocations."""

    at_end = choice_field(
        _("Share dates"),
        (
            ("", _("none: only the numbers change")),
            ("keep", _("with the allocation; flagged as expired afterwards")),
            ("zero", _("with the allocation; then 0")),
            ("archive", _("with the allocation; then archived")),
        ),
        required=False,
    )
    reason = reason_field(LONGEST_ALLOCATION_REASON)


def zone() -> ZoneInfo:
    """Time zone of the days of allocations."""
    return ZoneInfo(settings.TIME_ZONE)


def today(now: datetime) -> date:
    return day_of(now, zone())


@dataclass(frozen=True, slots=True)
class QueryPeriod:
    """The period that a query names; this year, with the problem, if what it names is no period."""

    period: Period
    problem: str = ""

    @property
    def query(self) -> str:
        return query_of(self.period)


def period_from_query(request: HttpRequest, now: datetime) -> QueryPeriod:
    """Read `?from=` and `?to=`; this year without them."""
    usual = whole_year(today(now))
    first, last = request.GET.get("from", ""), request.GET.get("to", "")
    if not first and not last:
        return QueryPeriod(usual)
    try:
        starts_on = date.fromisoformat(first) if first else usual.starts_on
        ends_on = date.fromisoformat(last) if last else max(usual.ends_on, starts_on)
        return QueryPeriod(Period(starts_on, ends_on))
    except ValueError:
        return QueryPeriod(
            usual, gettext("A period goes from one day to a later one, such as 2026-01-01 to 2026-12-31.")
        )


def query_of(period: Period) -> str:
    return urlencode({"from": period.starts_on.isoformat(), "to": period.ends_on.isoformat()})


def unit_from_query(request: HttpRequest) -> str:
    """Symbol of the unit in a query, or "" without one."""
    return request.GET.get("unit", "")[:LONGEST_SYMBOL]


def unit_query(unit: str, n_units: int) -> str:
    """The unit that a page shows, to be appended to a query; "" in a policy with the core-hour alone."""
    return "&" + urlencode({"unit": unit}) if n_units > 1 else ""


def units_in(policy: str, actor: Actor) -> tuple[Unit, ...]:
    """Units of a policy that the actor may read."""
    return policy_units(get_policy(slug=policy, actor=actor))


def uid_from_query(text: str) -> UUID | None:
    """UID of an entry in a query, or None without one; raises NotFound for text that is no UID."""
    try:
        return UUID(text) if text else None
    except ValueError:
        raise NotFound(gettext("No such entry.")) from None


def neighbours(period: Period, now: datetime) -> list[dict[str, Any]]:
    """Last year, this year and next year as choices."""
    this = whole_year(today(now))
    years = []
    for year in (this.starts_on.year - 1, this.starts_on.year, this.starts_on.year + 1):
        choice = whole_year(date(year, 1, 1))
        years.append({"label": str(year), "query": query_of(choice), "is_chosen": choice == period})
    return years


def period_text(period: Period) -> str:
    """A period in words: 2026; March 2026; 1 Apr to 31 Dec 2026; 1 Jul 2026 to 30 Jun 2027."""
    if period == whole_year(period.starts_on):
        return str(period.starts_on.year)
    if period.starts_on.day == 1 and period.ends_on == month_of(period.starts_on).ends_on:
        return formats.date_format(period.starts_on, "F Y")
    same_year = period.starts_on.year == period.ends_on.year
    first = formats.date_format(period.starts_on, "j M" if same_year else "j M Y")
    return gettext("%(first)s to %(last)s") % {"first": first, "last": formats.date_format(period.ends_on, "j M Y")}


def day_text(day: date, now: datetime) -> str:
    """A day such as 31 Dec; with the year if it is not the current year."""
    return formats.date_format(day, "j M" if day.year == today(now).year else "j M Y")


def month_of(day: date) -> Period:
    """The month that contains a day."""
    following = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
    return Period(day.replace(day=1), following - DAY)


def month_from_query(request: HttpRequest, now: datetime) -> Period:
    """Read a month such as `?month=2027-03`; the current month if there is none or it is invalid."""
    try:
        day = date.fromisoformat(f"{request.GET.get('month', '')}-01")
    except ValueError:
        return month_of(today(now))
    return month_of(day) if FIRST_DAY <= day <= LAST_DAY else month_of(today(now))


def month_key(day: date) -> str:
    return f"{day.year:04}-{day.month:02}"
