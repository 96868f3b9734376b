"""What this site publishes to others: its name and key, publications and feeds; made, changed, dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.errors import Conflict, DomainError, Invalid, NotAllowed, NotFound
from apps.dashboard.federation import publication_presenters as published_lines
from apps.dashboard.federation.forms import as_typed, number_field, reason_field, text_field
from apps.dashboard.federation.publication_presenters import ToldLine
from apps.dashboard.shell.requests import SeeOther, actor_of
from apps.federation.documents.trust import list_keys, rotate_key
from apps.federation.models import Publication, UsageFeed
from apps.federation.publishing import drop_publication, list_publications, make_publication, own_name
from apps.federation.usage_feeds.feeds import drop_feed, list_feeds, make_feed
from apps.policies.selectors import list_policies

# --- Forms ------------------------------------------------------------------------------------------------------------
Choices = Sequence[tuple[str, str]]
_HOUR_S, _DAY_S = 3_600, 86_400


class ToldForm(forms.Form):
    """What publications and feeds have in common; where it is, is settled when it is made."""

    where: Iterable[str] = ("policy", "entry")
    expires_unit_s: int  # in which its field counts

    def __init__(self, *args: Any, policies: Choices, is_new: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_new = is_new
        if not is_new:
            return
        choices = forms.ChoiceField(
            label=gettext_lazy("Policy"), choices=list(policies), widget=forms.Select(attrs={"class": "input"})
        )
        entry = text_field(gettext_lazy("Entry"), 8192, "")
        self.fields = {"policy": choices, "entry": entry, **self.fields}

    def given(self) -> dict[str, Any]:
        """What was filled in, as the services take it."""
        cleaned = self.cleaned_data
        return {
            "name": cleaned["name"],
            "expires_after_s": round(cleaned["expires"] * self.expires_unit_s),
            "is_open": cleaned["is_open"],
        }

    def add_refusal(self, error: DomainError) -> None:
        known = {"expires_after_s": "expires", "keeps_days": "keeps", "capacity_cores": "capacity"}
        for problem in error.fields:
            where = known.get(problem.where, problem.where)
            place = where if where in self.fields else None
            self.add_error(place, forms.ValidationError(problem.message, error.code))
        if not error.fields:
            place = "name" if error.code == "name_taken" else None
            self.add_error(place, forms.ValidationError(error.message, error.code))


class PublicationForm(ToldForm):
    """A subtree, as a series of documents."""

    expires_unit_s = _DAY_S
    name = text_field(
        gettext_lazy("Name"),
        128,
        gettext_lazy("Used in addresses and documents: vo-a."),
    )
    expires = number_field(
        gettext_lazy("Documents expire after, days"),
        0.05,
        366,
        "",
        initial=7,
    )
    is_open = forms.BooleanField(label=gettext_lazy("Anyone may fetch it, without a token"), required=False)


class FeedForm(ToldForm):
    """Its usage on this site's own sources."""

    expires_unit_s = _HOUR_S
    name = text_field(gettext_lazy("Name"), 128, gettext_lazy("Used in addresses and documents: vo-a."))
    capacity = number_field(
        gettext_lazy("Capacity (cores)"),
        1e-3,
        1e9,
        gettext_lazy("Peers reject hours above the capacity."),
    )
    keeps = number_field(gettext_lazy("Days published"), 1, 3_660, "", initial=400)
    expires = number_field(gettext_lazy("Documents expire after, hours"), 1, 8_784, initial=24)
    sends_running = forms.BooleanField(label=gettext_lazy("Publish running jobs, too"), required=False, initial=True)
    is_open = forms.BooleanField(label=gettext_lazy("Anyone may fetch it, without a token"), required=False)

    def given(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        return {
            **super().given(),
            "capacity_cores": cleaned["capacity"],
            "keeps_days": int(cleaned["keeps"]),
            "sends_running": cleaned["sends_running"],
        }


class ReasonForm(forms.Form):
    """Why, where that is all there is to say."""

    reason = reason_field()


# --- Overview ---------------------------------------------------------------------------------------------------------
@require_safe
def published(request: HttpRequest) -> HttpResponse:
    """For administrators, who decide what leaves the site."""
    actor, now = actor_of(request), clock.now()
    publications = [published_lines.publication_line(row, now) for row in list_publications(actor=actor)]
    feeds = [published_lines.feed_line(row, now) for row in list_feeds(actor=actor)]
    return render(
        request,
        "dashboard/federation/published.html",
        {
            "headline": published_lines.headline(publications, feeds),
            "publications": publications,
            "feeds": feeds,
            **identity(),
            "crumbs": crumbs(),
        },
    )


def identity() -> dict[str, Any]:
    """The name and the key that others know this site by."""
    keys = published_lines.key_lines(list_keys())
    try:
        name, problem = own_name(), ""
    except Invalid as error:
        name, problem = "", error.message
    return {"own_name": name, "name_problem": problem, "keys": keys, "key": keys[0] if keys else None}


def crumbs(*labels: str) -> list[dict[str, str]]:
    """Of this page, and of those below it."""
    top = {"label": _("Federation"), "url": reverse("dashboard:federation")}
    if not labels:
        return [top, {"label": _("Publications")}]
    here = {"label": _("Publications"), "url": reverse("dashboard:federation-published")}
    return [top, here, *({"label": label} for label in labels)]


# --- Publications and the key -----------------------------------------------------------------------------------------
Row = TypeVar("Row", Publication, UsageFeed)
_REFUSALS = (Invalid, Conflict, NotFound)


@dataclass(frozen=True)
class Kind:
    """Publications and feeds differ in what is asked and who does it."""

    form: type[ToldForm]
    make: Callable[..., Any]
    title: str
    is_feed: bool


def _publications() -> Kind:
    return Kind(PublicationForm, make_publication, _("Publish"), is_feed=False)


@require_http_methods(["GET", "HEAD", "POST"])
def publication_new(request: HttpRequest) -> HttpResponse:
    return make_one(request, _publications())


@require_http_methods(["GET", "HEAD", "POST"])
def publication(request: HttpRequest, name: str) -> HttpResponse:
    """Its readers, and a form to change it."""
    rows = list_publications(actor=administrator(request))
    row = named(rows, name, _("Not found"))
    line = published_lines.publication_line(row, clock.now())
    initial = {"name": row.name, "expires": as_typed(row.expires_after_s / 86_400), "is_open": row.is_open}
    return change_one(request, _publications(), line, initial)


@require_POST
def publication_drop(request: HttpRequest, name: str) -> HttpResponse:
    form = ReasonForm(request.POST)
    reason = form.cleaned_data["reason"] if form.is_valid() else ""
    drop_publication(name=name, reason=reason, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("Stopped"))
    return SeeOther(reverse("dashboard:federation-published"))


@require_http_methods(["GET", "HEAD", "POST"])
def rotate(request: HttpRequest) -> HttpResponse:
    """Ask why, then make a new key that the present one hands over to."""
    actor = administrator(request)
    form = ReasonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        rotate_key(reason=form.cleaned_data["reason"], at=clock.now(), actor=actor)
        messages.success(request, _("Peers that trust the old key accept the new one automatically."))
        return SeeOther(reverse("dashboard:federation-published") + "#key")
    context = {"form": form, **identity(), "crumbs": crumbs(_("Replace key"))}
    status = 422 if request.method == "POST" else 200
    return render(request, "dashboard/federation/rotate.html", context, status=status)


def make_one(request: HttpRequest, kind: Kind) -> HttpResponse:
    actor = administrator(request)
    policies = [(policy.slug, policy.name) for policy in list_policies(actor=actor)]
    if request.method != "POST":
        given = {name: request.GET[name][:8192] for name in ("policy", "entry") if name in request.GET}
        return _page(request, kind, kind.form(initial=given, policies=policies, is_new=True), None)
    form = kind.form(request.POST, policies=policies, is_new=True)
    if form.is_valid():
        where = {"policy_slug": form.cleaned_data["policy"], "entry": form.cleaned_data["entry"]}
        if (done := _done(request, kind, form, where, actor)) is not None:
            return done
    return _page(request, kind, form, None, status=422)


def change_one(request: HttpRequest, kind: Kind, line: ToldLine, initial: dict[str, Any]) -> HttpResponse:
    if request.method != "POST":
        return _page(request, kind, kind.form(initial=initial, policies=(), is_new=False), line)
    form = kind.form(request.POST, policies=(), is_new=False)
    if form.is_valid():
        where = {"policy_slug": line.policy, "entry": line.path}
        if (done := _done(request, kind, form, where, actor_of(request))) is not None:
            return done
    return _page(request, kind, form, line, status=422)


def _done(request: HttpRequest, kind: Kind, form: ToldForm, where: dict[str, str], actor: Actor) -> HttpResponse | None:
    try:
        made = kind.make(**where, **form.given(), at=clock.now(), actor=actor)
    except _REFUSALS as refusal:
        form.add_refusal(refusal)
        return None
    messages.success(request, _("Published") if form.is_new else _("Saved"))
    name = "dashboard:federation-feed" if kind.is_feed else "dashboard:federation-publication"
    return SeeOther(reverse(name, args=[made.name]))


def _page(
    request: HttpRequest, kind: Kind, form: ToldForm, line: ToldLine | None, *, status: int = 200
) -> HttpResponse:
    drop = "dashboard:federation-feed-drop" if kind.is_feed else "dashboard:federation-publication-drop"
    context = {
        "form": form,
        "fields": [form[name] for name in form.fields if name not in ("sends_running", "is_open")],
        "ticks": [form[name] for name in form.fields if name in ("sends_running", "is_open")],
        "is_feed": kind.is_feed,
        "line": line,
        "title": line.name if line else kind.title,
        "drop_url": reverse(drop, args=[line.name]) if line else "",
        "drop_form": ReasonForm(auto_id="drop_%s"),
        "address": request.build_absolute_uri(line.address) if line else "",
        "crumbs": crumbs(line.name if line else kind.title),
    }
    return render(request, "dashboard/federation/told.html", context, status=status)


def named(rows: Sequence[Row], name: str, missing: str) -> Row:
    found = next((row for row in rows if row.name == name), None)
    if found is None:
        raise NotFound(missing)
    return found


def administrator(request: HttpRequest) -> Actor:
    actor = actor_of(request)
    if not actor.is_admin:
        raise NotAllowed(_("Only an administrator can change this."))
    return actor


# --- Feeds ------------------------------------------------------------------------------------------------------------
def _feeds() -> Kind:
    return Kind(FeedForm, make_feed, _("New usage feed"), is_feed=True)


@require_http_methods(["GET", "HEAD", "POST"])
def feed_new(request: HttpRequest) -> HttpResponse:
    return make_one(request, _feeds())


@require_http_methods(["GET", "HEAD", "POST"])
def feed(request: HttpRequest, name: str) -> HttpResponse:
    """Its readers, and a form to change it."""
    row = named(list_feeds(actor=administrator(request)), name, _("Not found"))
    line = published_lines.feed_line(row, clock.now())
    initial = {
        "name": row.name,
        "capacity": as_typed(row.capacity_cores),
        "keeps": row.keeps_days,
        "expires": as_typed(row.expires_after_s / 3_600),
        "sends_running": row.sends_running,
        "is_open": row.is_open,
    }
    return change_one(request, _feeds(), line, initial)


@require_POST
def feed_drop(request: HttpRequest, name: str) -> HttpResponse:
    drop_feed(name=name, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("Stopped"))
    return SeeOther(reverse("dashboard:federation-published"))
