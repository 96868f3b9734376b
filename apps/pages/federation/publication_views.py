"""Pages to publish to other sites: the site's name and key, publications, and usage feeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound
from apps.federation.documents.site_keys import list_keys, rotate_key
from apps.federation.documents.wire_usage import LEAST_DOCUMENT_CORES, MOST_DOCUMENT_CORES
from apps.federation.models import Publication, UsageFeed
from apps.federation.publishing import (
    LEAST_EXPIRY_S,
    MOST_EXPIRY_S,
    drop_publication,
    list_publications,
    make_publication,
    own_name,
)
from apps.federation.usage_feeds.feeds import MOST_FEED_DAYS, drop_feed, list_feeds, make_feed
from apps.pages.federation import publication_presenters
from apps.pages.federation.forms import typed_number
from apps.pages.federation.publication_presenters import PublishedLine
from apps.policies.selectors import list_policies
from apps.web import bounds
from apps.web.shell.forms import Form, RefusableForm, choice_field, name_field, number_field, reason_field
from apps.web.shell.requests import SeeOther, actor_of

Choices = Sequence[tuple[str, str]]
_HOUR_S, _DAY_S = 3_600, 86_400
Row = TypeVar("Row", Publication, UsageFeed)
_REFUSALS = (Invalid, Conflict, NotFound)


def _name_field() -> forms.CharField:
    return name_field(
        gettext_lazy("Name"), bounds.PUBLICATION, gettext_lazy("Used in addresses and documents, such as vo-a.")
    )


class PublishedForm(RefusableForm):
    """Base of the forms for publications and feeds; policy and entry are fixed once one exists."""

    field_names = {  # noqa: RUF012
        "expires_after_s": "expires",
        "keeps_days": "keeps",
        "capacity_cores": "capacity",
        "name_taken": "name",
    }
    expires_unit_s: int  # unit of the field `expires`

    def __init__(self, *args: Any, policies: Choices, is_new: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_new = is_new
        if is_new:
            policy = choice_field(gettext_lazy("Policy"), list(policies))
            self.fields = {
                "policy": policy,
                "entry": name_field(
                    gettext_lazy("Entry"), bounds.ENTRY, gettext_lazy("Path, such as /physics; / is the root.")
                ),
                **self.fields,
            }

    def settings(self) -> dict[str, Any]:
        """Settings in the units of the federation services."""
        cleaned = self.cleaned_data
        return {
            "name": cleaned["name"],
            "expires_after_s": round(cleaned["expires"] * self.expires_unit_s),
            "is_open": cleaned["is_open"],
        }


class PublicationForm(PublishedForm):
    """A subtree that is published as documents for other sites to mount."""

    expires_unit_s = _DAY_S
    name = _name_field()
    expires = number_field(
        gettext_lazy("Documents expire after (days)"),
        min_value=LEAST_EXPIRY_S / _DAY_S,
        max_value=MOST_EXPIRY_S / _DAY_S,
        initial=7,
    )
    is_open = forms.BooleanField(label=gettext_lazy("Anyone may fetch it, without a token"), required=False)


class FeedForm(PublishedForm):
    """A subtree whose usage on this site's sources is published."""

    expires_unit_s = _HOUR_S
    name = _name_field()
    capacity = number_field(
        gettext_lazy("Capacity (cores)"),
        gettext_lazy("Peers reject hours above the capacity."),
        min_value=LEAST_DOCUMENT_CORES,
        max_value=MOST_DOCUMENT_CORES,
    )
    keeps = number_field(gettext_lazy("History (days)"), min_value=1, max_value=MOST_FEED_DAYS, initial=400)
    expires = number_field(
        gettext_lazy("Documents expire after (hours)"), min_value=1, max_value=MOST_EXPIRY_S / _HOUR_S, initial=24
    )
    sends_running = forms.BooleanField(label=gettext_lazy("Include running jobs"), required=False, initial=True)
    is_open = forms.BooleanField(label=gettext_lazy("Anyone may fetch it, without a token"), required=False)

    def settings(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        return {
            **super().settings(),
            "capacity_cores": cleaned["capacity"],
            "keeps_days": int(cleaned["keeps"]),
            "sends_running": cleaned["sends_running"],
        }


class ReasonForm(Form):
    reason = reason_field(bounds.REASON)


@require_safe
def published(request: HttpRequest) -> HttpResponse:
    """All publications and feeds; for administrators only."""
    actor, now = actor_of(request), clock.now()
    publications = [publication_presenters.publication_line(row, now) for row in list_publications(actor=actor)]
    feeds = [publication_presenters.feed_line(row, now) for row in list_feeds(actor=actor)]
    return render(
        request,
        "pages/federation/published.html",
        {
            "headline": publication_presenters.headline(publications, feeds),
            "publications": publications,
            "feeds": feeds,
            **identity(),
            "crumbs": crumbs(),
        },
    )


def identity() -> dict[str, Any]:
    """Name of this site, or the problem with it, and its signing keys, newest first."""
    keys = publication_presenters.key_lines(list_keys())
    try:
        name, problem = own_name(), ""
    except Invalid as error:
        name, problem = "", error.message
    return {"own_name": name, "name_problem": problem, "keys": keys, "key": keys[0] if keys else None}


def crumbs(*labels: str) -> list[dict[str, str]]:
    """Breadcrumbs of the page of publications, or of a page below it with `labels`."""
    top = {"label": _("Federation"), "url": reverse("pages:federation")}
    if not labels:
        return [top, {"label": _("Publications")}]
    here = {"label": _("Publications"), "url": reverse("pages:federation-published")}
    return [top, here, *({"label": label} for label in labels)]


@dataclass(frozen=True)
class Kind:
    """Form, service and title by which the pages of publications and feeds differ."""

    form: type[PublishedForm]
    make: Callable[..., Any]
    title: str
    is_feed: bool


def _publications() -> Kind:
    return Kind(PublicationForm, make_publication, _("Publish subtree"), is_feed=False)


@require_http_methods(["GET", "HEAD", "POST"])
def publication_new(request: HttpRequest) -> HttpResponse:
    return create_publication(request, _publications())


@require_http_methods(["GET", "HEAD", "POST"])
def publication(request: HttpRequest, name: str) -> HttpResponse:
    """Readers of one publication, and a form to change it."""
    rows = list_publications(actor=administrator(request))
    row = named(rows, name, _("Not found"))
    line = publication_presenters.publication_line(row, clock.now())
    initial = {"name": row.name, "expires": typed_number(row.expires_after_s / 86_400), "is_open": row.is_open}
    return change_publication(request, _publications(), line, initial)


@require_POST
def publication_drop(request: HttpRequest, name: str) -> HttpResponse:
    form = ReasonForm(request.POST)
    reason = form.cleaned_data["reason"] if form.is_valid() else ""
    drop_publication(name=name, reason=reason, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("Stopped"))
    return SeeOther(reverse("pages:federation-published"))


@require_http_methods(["GET", "HEAD", "POST"])
def rotate(request: HttpRequest) -> HttpResponse:
    """Replace the signing key: the current key signs the new one; asks for a reason first."""
    actor = administrator(request)
    form = ReasonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        rotate_key(reason=form.cleaned_data["reason"], at=clock.now(), actor=actor)
        messages.success(request, _("Peers that trust the old key accept the new one automatically."))
        return SeeOther(reverse("pages:federation-published") + "#key")
    context = {"form": form, **identity(), "crumbs": crumbs(_("Replace key"))}
    status = 422 if request.method == "POST" else 200
    return render(request, "pages/federation/rotate.html", context, status=status)


def create_publication(request: HttpRequest, kind: Kind) -> HttpResponse:
    actor = administrator(request)
    policies = [(policy.slug, policy.name) for policy in list_policies(actor=actor)]
    if request.method != "POST":
        initial = {name: request.GET[name][:8192] for name in ("policy", "entry") if name in request.GET}
        return _page(request, kind, kind.form(initial=initial, policies=policies, is_new=True), None)
    form = kind.form(request.POST, policies=policies, is_new=True)
    if form.is_valid():
        where = {"policy_slug": form.cleaned_data["policy"], "entry": form.cleaned_data["entry"]}
        if (response := _publish(request, kind, form, where, actor)) is not None:
            return response
    return _page(request, kind, form, None, status=422)


def change_publication(request: HttpRequest, kind: Kind, line: PublishedLine, initial: dict[str, Any]) -> HttpResponse:
    if request.method != "POST":
        return _page(request, kind, kind.form(initial=initial, policies=(), is_new=False), line)
    form = kind.form(request.POST, policies=(), is_new=False)
    if form.is_valid():
        where = {"policy_slug": line.policy, "entry": line.path}
        if (response := _publish(request, kind, form, where, actor_of(request))) is not None:
            return response
    return _page(request, kind, form, line, status=422)


def _publish(
    request: HttpRequest, kind: Kind, form: PublishedForm, where: dict[str, str], actor: Actor
) -> HttpResponse | None:
    """Create or change a publication or feed; None if it is refused, with the refusal in the form."""
    try:
        made = kind.make(**where, **form.settings(), at=clock.now(), actor=actor)
    except _REFUSALS as refusal:
        form.add_refusal(refusal)
        return None
    messages.success(request, _("Published") if form.is_new else _("Saved"))
    name = "pages:federation-feed" if kind.is_feed else "pages:federation-publication"
    return SeeOther(reverse(name, args=[made.name]))


def _page(
    request: HttpRequest, kind: Kind, form: PublishedForm, line: PublishedLine | None, *, status: int = 200
) -> HttpResponse:
    drop = "pages:federation-feed-drop" if kind.is_feed else "pages:federation-publication-drop"
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
    return render(request, "pages/federation/published_form.html", context, status=status)


def named(rows: Sequence[Row], name: str, missing: str) -> Row:
    named_row = next((row for row in rows if row.name == name), None)
    if named_row is None:
        raise NotFound(missing)
    return named_row


def administrator(request: HttpRequest) -> Actor:
    actor = actor_of(request)
    if not actor.is_admin:
        raise NotAllowed(_("Only an administrator can change this."))
    return actor


def _feeds() -> Kind:
    return Kind(FeedForm, make_feed, _("Publish usage feed"), is_feed=True)


@require_http_methods(["GET", "HEAD", "POST"])
def feed_new(request: HttpRequest) -> HttpResponse:
    return create_publication(request, _feeds())


@require_http_methods(["GET", "HEAD", "POST"])
def feed(request: HttpRequest, name: str) -> HttpResponse:
    """Readers of one usage feed, and a form to change it."""
    row = named(list_feeds(actor=administrator(request)), name, _("Not found"))
    line = publication_presenters.feed_line(row, clock.now())
    initial = {
        "name": row.name,
        "capacity": typed_number(row.capacity_cores),
        "keeps": row.keeps_days,
        "expires": typed_number(row.expires_after_s / 3_600),
        "sends_running": row.sends_running,
        "is_open": row.is_open,
    }
    return change_publication(request, _feeds(), line, initial)


@require_POST
def feed_drop(request: HttpRequest, name: str) -> HttpResponse:
    drop_feed(name=name, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("Stopped"))
    return SeeOther(reverse("pages:federation-published"))
