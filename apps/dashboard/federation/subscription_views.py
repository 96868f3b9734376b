"""Usage of other sites: subscribed to in two steps, and how each subscription stands."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.errors import DomainError
from apps.core.typed_numbers import read_number
from apps.dashboard.federation import publication_presenters as published_lines
from apps.dashboard.federation import subscriptions as told_lines
from apps.dashboard.federation.subscriptions import (
    STALE_ACTIONS,
    AddressForm,
    SettingsForm,
    TermsForm,
    rhythm_of,
    settings_of,
)
from apps.dashboard.shell import lines
from apps.dashboard.shell.requests import SeeOther, actor_of
from apps.federation import control
from apps.federation.grid.peers import require_federation
from apps.federation.grid.totals import GridChoice, list_grid_entries
from apps.federation.models import Fetch, Subscription
from apps.federation.usage_feeds.quarantine import load_reported_usage
from apps.federation.usage_feeds.subscriptions import (
    FeedPreview,
    get_subscription,
    preview_feed,
    subscribe,
    unsubscribe,
)
from apps.policies.models import Revision
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree
from apps.priorities.metering import site_factor


@never_cache
@sensitive_post_parameters("token")
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """The address first; what lies there, with its key, is shown before anything is trusted. Nothing is kept until
    somebody has compared the fingerprint.
    """
    actor, at = actor_of(request), clock.now()
    require_federation(at=at, actor=actor)
    places = _places(actor, at)
    if request.method != "POST":
        entry = f"{request.GET.get('policy', '')}:{request.GET.get('entry', '')}"
        return _address(request, AddressForm(places=places, initial={"entry": entry}))
    address = AddressForm(request.POST, places=places)
    if not address.is_valid():
        return _address(request, address, status=422)
    policy, path = address.place
    given = {"url": address.cleaned_data["url"], "token": address.cleaned_data["token"]}
    try:
        seen = preview_feed(**given, policy_slug=policy, entry=path, at=at, actor=actor)
    except DomainError as refusal:
        address.add_refusal(refusal)
        return _address(request, address, status=422)
    shown = seen.key.fingerprint
    if request.POST.get("step") != "terms":
        first = TermsForm(shown=shown, initial={"capacity": seen.document.head.capacity_cores})
        return _terms(request, address, first, seen)
    terms = TermsForm(request.POST, shown=shown)
    if terms.is_valid():
        head, agreed = seen.document.head, terms.cleaned_data
        try:
            made = subscribe(
                policy_slug=policy,
                entry=path,
                **given,
                issuer=head.issuer,
                feed=head.feed,
                fingerprint=agreed["fingerprint"],
                capacity_cores=agreed["capacity"],
                settings=rhythm_of(agreed),
                reason=agreed["reason"],
                at=at,
                actor=actor,
            )
        except DomainError as refusal:
            terms.add_refusal(refusal)
        else:
            messages.success(request, _("Fetching now; the result appears here in a moment."))
            return SeeOther(told_lines.subscription_url(made))
    return _terms(request, address, terms, seen, status=422)


@require_safe
def subscription(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """How it stands, its looks and its hours; for who may mount at its entry."""
    row = get_subscription(subscription_id=subscription_id, actor=actor_of(request), at=clock.now())
    return _page(request, row, SettingsForm(initial=settings_of(row)))


@sensitive_post_parameters("token")
@require_POST
def act(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """`what` says which deed; each is in the audit log with its reason."""
    actor, at, reason = actor_of(request), clock.now(), request.POST.get("reason", "")[:1_000]
    row = get_subscription(subscription_id=subscription_id, actor=actor, at=at)
    what = request.POST.get("what", "")
    one: dict[str, Any] = {"kind": "subscription", "remote_id": row.pk, "reason": reason, "at": at, "actor": actor}
    form = SettingsForm(request.POST if what == "settings" else None, initial=settings_of(row))
    try:
        if what == "settings":
            if not form.is_valid():
                return _page(request, row, form, status=422)
            token = form.cleaned_data["token"] or None
            control.change_settings(**one, settings=rhythm_of(form.cleaned_data), token=token)
        elif what == "capacity":
            agreed = _number(request.POST.get("capacity", ""))
            control.agree_capacity(subscription=row.pk, cores=agreed, reason=reason, at=at, actor=actor)
        elif what == "key":
            control.trust_key(**one, fingerprint=request.POST.get("fingerprint", "")[:200])
        elif what == "unsubscribe":
            unsubscribe(subscription_id=row.pk, reason=reason, at=at, actor=actor)
            messages.success(request, _("Its usage was removed."))
            return SeeOther(reverse("dashboard:federation"))
        elif what in _DEEDS:
            _DEEDS[what](**one)
    except DomainError as refusal:
        if what == "settings":
            form.add_refusal(refusal)
            return _page(request, row, form, status=422)
        return _page(request, row, form, problem=refusal, status=409 if refusal.code != "invalid" else 422)
    messages.success(request, _done_words(what))
    return SeeOther(told_lines.subscription_url(row))


_DEEDS: dict[str, Any] = {
    "fetch": control.fetch_now,
    "pause": control.pause,
    "resume": control.resume,
    "freeze": control.freeze,
    "thaw": control.unfreeze,
    "anew": control.reset_history,
}


def _done_words(what: str) -> str:
    return {
        "fetch": _("Fetching now; the result appears here in a moment."),
        "pause": _("Saved"),
        "resume": _("Fetching now; the result appears here in a moment."),
        "freeze": _("Frozen: it is fetched, but not applied."),
        "thaw": _("Fetching now; the result appears here in a moment."),
        "anew": _("All its usage is read again."),
        "settings": _("Saved"),
        "capacity": _("All its usage is read again."),
        "key": _("Fetching now; the result appears here in a moment."),
    }.get(what, _("Nothing was changed."))


def _number(text: str) -> float:
    try:
        return read_number(text)
    except ValueError:
        return 0.0  # which no capacity is: the service says what is


def _places(actor: Actor, at: datetime) -> list[tuple[str, str]]:
    """Entries that other sites know, too: what is mounted, and what we publish."""
    found = list_grid_entries(actor=actor, at=at)
    many = len({one.policy_slug for one in found}) > 1

    def label(one: GridChoice) -> str:
        words = {"path": one.path, "what": one.what}
        text = "%(path)s (%(what)s)"
        return f"{one.policy_name}: {text % words}" if many else text % words

    return [(f"{one.policy_slug}:{one.path}", label(one)) for one in found]


def _address(request: HttpRequest, form: AddressForm, *, status: int = 200) -> HttpResponse:
    context = {"form": form, "crumbs": crumbs(_("Subscribe")), "has_places": form.has_places}
    return render(request, "dashboard/federation/subscribe.html", context, status=status)


def _terms(
    request: HttpRequest, address: AddressForm, form: TermsForm, seen: FeedPreview, *, status: int = 200
) -> HttpResponse:
    head = seen.document.head
    hours = seen.document.hours
    context = {
        "address": address,
        "form": form,
        "seen": seen,
        "head": head,
        "capacity": told_lines.cores(head.capacity_cores),
        "n_hours": len(hours),
        "n_entries": len(seen.document.entries),
        "n_running": None if seen.document.running is None else len(seen.document.running.entry),
        "groups": published_lines.groups_of(seen.key.fingerprint),
        "rhythm": [form["every"], form["max_age"]],
        "stale_actions": STALE_ACTIONS,
        "stale_chosen": form["stale_action"].value(),
        "place": address.place,
        "crumbs": crumbs(_("Subscribe")),
    }
    return render(request, "dashboard/federation/subscribe_terms.html", context, status=status)


def _page(
    request: HttpRequest,
    row: Subscription,
    form: SettingsForm,
    *,
    problem: DomainError | None = None,
    status: int = 200,
) -> HttpResponse:
    now, told = clock.now(), load_reported_usage(row)
    tree = load_tree(row.policy)
    i = tree.index_of_uid(row.entry_uid)
    path = tree.path(i) if i is not None else ""
    stored = Revision.objects.filter(policy=row.policy, number=row.policy.head_number).values_list(
        "settings", flat=True
    )
    looks = Fetch.objects.filter(subscription=row).order_by("-pk")[: told_lines.LOOKS]
    request.policy_slug = row.policy.slug  # type: ignore[attr-defined]  # what the frame is about
    context = {
        "row": row,
        "site": told_lines.site_name(row),
        "path": path,
        "entry_url": lines.entry_url(row.policy.slug, row.entry_uid, tree.name[i]) if i is not None else "",
        "story": told_lines.story(row, told, path or row.feed, now),
        "told": told,
        "hours": told_lines.hour_lines(told),
        "looks": told_lines.look_lines(list(looks)),
        "agreed": told_lines.cores(row.capacity_cores),
        "capacity_words": told_lines.capacity_words(row, told),
        "suggested": f"{told_lines.suggested_cores(row):g}",
        "running": told_lines.cores(told.running_cores),
        "speed": _speed(PolicySettings.from_stored(stored[0]), row.source.site) if stored else "1",
        "groups": published_lines.groups_of(row.fingerprint),
        "form": form,
        "rhythm": [form["every"], form["max_age"]],
        "stale_actions": STALE_ACTIONS,
        "stale_chosen": form["stale_action"].value(),
        "problem": problem,
        "grid_url": f"{reverse('dashboard:federation-grid')}?policy={row.policy.slug}&entry={path}" if path else "",
        "now": now,
        "crumbs": crumbs(f"{told_lines.site_name(row)}, {row.feed}"),
    }
    return render(request, "dashboard/federation/subscription.html", context, status=status)


def _speed(settings: PolicySettings, site: str) -> str:
    return f"{site_factor(site, settings.metric['site_factors']):g}"


def crumbs(last: str) -> list[dict[str, str]]:
    return [{"label": _("Federation"), "url": reverse("dashboard:federation")}, {"label": last}]
