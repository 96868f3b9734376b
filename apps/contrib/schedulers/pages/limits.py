"""Page of the limits of accounts of a scheduler: bounds, approval by a second person, and what is set and why."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods

from apps.contrib.schedulers import bounds as of_schedulers
from apps.contrib.schedulers.limit_settings import approve_limits, change_limit_settings, request_limits
from apps.contrib.schedulers.limit_table import LimitTable, get_limit_table
from apps.contrib.schedulers.models import LimitSettings, Scheduler
from apps.core import clock
from apps.core.errors import Conflict, DomainError, Invalid, NotAllowed, Stale
from apps.priorities.sentences import numbers
from apps.web.shell.forms import RefusableForm, name_field, read_action
from apps.web.shell.requests import SeeOther, actor_of

_REFUSALS = (Invalid, Conflict, Stale, NotAllowed)
_STATES = {
    "": ("", gettext_lazy("not reported yet")),
    "free": ("", gettext_lazy("no limit")),
    "set": ("warn", gettext_lazy("set")),
    "lifted": ("ok", gettext_lazy("removed")),
    "would_set": ("", gettext_lazy("would be set")),
    "later": ("", gettext_lazy("waits: enough for today")),
    "last_running": ("", gettext_lazy("left: the last account that runs")),
    "jobs_running": ("", gettext_lazy("waits: it has running jobs")),
    "admin_limit": ("", gettext_lazy("left: it has another limit")),
    "missing": ("bad", gettext_lazy("unknown in the scheduler")),
    "changed_meanwhile": ("warn", gettext_lazy("changed in the scheduler")),
    "paused": ("", gettext_lazy("paused")),
    "not_named": ("bad", gettext_lazy("not named")),
    "ended_on_host": ("bad", gettext_lazy("ended on the host")),
    "lapsed": ("bad", gettext_lazy("lapsed")),
    "not_approved": ("", gettext_lazy("waits for a second person")),
    "other_scheduler": ("", gettext_lazy("named by another scheduler")),
    "invalid": ("bad", gettext_lazy("can’t be sent")),
    "denied": ("bad", gettext_lazy("denied: the agent needs operator rights")),
    "timeout": ("bad", gettext_lazy("took too long")),
    "refused": ("bad", gettext_lazy("refused")),
    "unreadable": ("bad", gettext_lazy("can’t be read")),
    "setting": ("", gettext_lazy("being set")),
    "lifting": ("", gettext_lazy("being removed")),
}


class LimitsForm(RefusableForm):
    """Bounds within which the agent sets limits of accounts."""

    accounts = forms.CharField(
        label=gettext_lazy("Accounts"),
        help_text=gettext_lazy("Comma-separated. No other account gets a limit."),
        required=False,
        max_length=of_schedulers.ACCOUNT_LIST,
        widget=forms.Textarea(attrs={"class": "input", "rows": 3, "spellcheck": "false", "autocapitalize": "none"}),
    )
    canary_account = name_field(
        gettext_lazy("Canary account"),
        of_schedulers.ACCOUNT,
        gettext_lazy("The only one limited in canary mode."),
        required=False,
    )
    percent_a_day = forms.IntegerField(
        label=gettext_lazy("Accounts limited a day (%)"),
        help_text=gettext_lazy("Of the named accounts; one at least, unless it is 0."),
        widget=forms.NumberInput(attrs={"class": "input", "min": "0", "max": "100"}),
    )
    lapse_s = forms.IntegerField(
        label=gettext_lazy("Limits lapse after (seconds)"),
        help_text=gettext_lazy("Without new orders for so long, the agent removes them."),
        widget=forms.NumberInput(attrs={"class": "input", "min": "600"}),
    )

    def changes(self) -> dict[str, Any]:
        typed = dict(self.cleaned_data)
        typed["accounts"] = [name for name in typed["accounts"].replace(",", " ").split() if name]
        return typed


@require_http_methods(["GET", "HEAD", "POST"])
def limits(request: HttpRequest, name: str) -> HttpResponse:
    """Limits of accounts; POST saves the bounds, asks a second person, or approves, as the button `to` says.

    `tag` identifies the bounds that the page showed.
    """
    table = get_limit_table(name=name, at=clock.now(), actor=actor_of(request))
    if request.method != "POST":
        return _page(request, table, LimitsForm(initial=_initial(table)), None)
    action = read_action(request, "to")
    common: dict[str, Any] = {"name": name, "tag": action.tag, "at": clock.now(), "actor": actor_of(request)}
    if action.step == "save":
        form = LimitsForm(request.POST)
        if form.is_valid():
            try:
                change_limit_settings(changes=form.changes(), **common)
            except _REFUSALS as refusal:
                form.add_refusal(refusal)
            else:
                messages.success(request, _("Saved"))
                return SeeOther(_url(name))
        return _page(request, table, form, None)
    try:
        if action.step == "request":
            request_limits(**common)
            messages.success(request, _("Another manager can approve this now."))
        elif action.step == "approve":
            approve_limits(**common)
            messages.success(request, _("Approved"))
        else:
            raise Invalid(_("There is: %(names)s.") % {"names": "save, request, approve"})
    except _REFUSALS as refusal:
        return _page(request, table, LimitsForm(initial=_initial(table)), refusal)
    return SeeOther(_url(name))


def _page(request: HttpRequest, table: LimitTable, form: LimitsForm, problem: DomainError | None) -> HttpResponse:
    scheduler, settings = table.scheduler, table.settings
    actor = actor_of(request)
    context = {
        "scheduler": scheduler,
        "table": table,
        "headline": _headline(table),
        "rows": [(row, *_STATES[row.state]) for row in table.rows],
        "form": form,
        "problem": problem,
        "carries": scheduler.carries == Scheduler.Carries.LIMITS,
        "unapproved": _unapproved(settings),
        "may_approve": actor.user is not None and settings.requested_by_id not in (None, actor.user.pk),
        "crumbs": [
            {"label": _("Schedulers"), "url": reverse("pages:schedulers")},
            {"label": scheduler.name, "url": reverse("pages:scheduler", kwargs={"name": scheduler.name})},
            {"label": _("Limits")},
        ],
    }
    status = form.status
    if problem is not None:
        status = 412 if isinstance(problem, Stale) else 403 if isinstance(problem, NotAllowed) else 422
    return render(request, "contrib/schedulers/limits.html", context, status=status)


def _unapproved(settings: LimitSettings) -> list[str]:
    """What no second person approved: accounts, and bounds that are wider than the approved ones."""
    unapproved = sorted(set(settings.accounts) - set(settings.approved_accounts))
    if settings.percent_a_day > (settings.approved_percent_a_day or 0):
        unapproved.append(_("%(n)s %% a day") % {"n": numbers.count(settings.percent_a_day)})
    if settings.lapse_s > (settings.approved_lapse_s or 0):
        unapproved.append(_("lapse after %(n)s s") % {"n": numbers.count(settings.lapse_s)})
    return unapproved if settings.accounts else []


def _headline(table: LimitTable) -> str:
    n = table.n_set
    if not n:
        return _("%(name)s limits no account") % {"name": table.scheduler.name}
    text = ngettext("%(name)s limits %(n)s account", "%(name)s limits %(n)s accounts", n)
    return text % {"name": table.scheduler.name, "n": numbers.count(n)}


def _initial(table: LimitTable) -> dict[str, Any]:
    settings = table.settings
    return {
        "accounts": ", ".join(settings.accounts),
        **{name: getattr(settings, name) for name in ("canary_account", "percent_a_day", "lapse_s")},
    }


def _url(name: str) -> str:
    return reverse("pages:scheduler-limits", kwargs={"name": name})
