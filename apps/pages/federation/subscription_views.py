"""Pages to subscribe to usage of another site in two steps, and to view and manage a subscription."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.errors import DomainError
from apps.federation import control
from apps.federation.fetch_requests import Kind
from apps.federation.grid.peers import require_federation
from apps.federation.grid.totals import GridChoice, list_grid_entries
from apps.federation.models import Subscription
from apps.federation.usage_feeds.quarantine import load_reported_usage
from apps.federation.usage_feeds.subscriptions import (
    FeedPreview,
    get_subscription,
    preview_feed,
    subscribe,
)
from apps.pages.federation import publication_presenters, subscription_presenters
from apps.pages.federation.actions import FETCHING, RemoteAction, common_actions, crumbs_of, run_action, shared_context
from apps.pages.federation.fetch_log import show_log
from apps.pages.federation.forms import (
    CapacityForm,
    FeedAddressForm,
    ReasonForm,
    SubscriptionSettingsForm,
    TermsForm,
    TrustForm,
)
from apps.pages.federation.presenters import allowed_text
from apps.policies.models import Revision
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree
from apps.priorities.usage_factors import site_factor
from apps.web.shell import lines, presentation
from apps.web.shell.forms import RefusableForm, read_action
from apps.web.shell.requests import SeeOther, actor_of

_REREAD = gettext_lazy("All its usage is imported again.")

_FORM_OF: dict[type[RefusableForm], str] = {
    SubscriptionSettingsForm: "settings",
    CapacityForm: "capacity",
    TrustForm: "trust",
}


@never_cache
@sensitive_post_parameters("token")
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Ask for the feed's address, then show the feed with its key, and subscribe once the fingerprint was compared.

    Nothing is stored before the last step.
    """
    actor, at = actor_of(request), clock.now()
    require_federation(at=at, actor=actor)
    entries = _entry_choices(actor, at)
    if request.method != "POST":
        entry = f"{request.GET.get('policy', '')}:{request.GET.get('entry', '')}"
        return _address(request, FeedAddressForm(entries=entries, initial={"entry": entry}))
    address = FeedAddressForm(request.POST, entries=entries)
    if not address.is_valid():
        return _address(request, address, status=422)
    policy, path = address.policy_and_path
    access = {"url": address.cleaned_data["url"], "token": address.cleaned_data["token"]}
    try:
        seen = preview_feed(**access, policy_slug=policy, entry=path, at=at, actor=actor)
    except DomainError as refusal:
        address.add_refusal(refusal)
        return _address(request, address, status=422)
    shown = seen.key.fingerprint
    if read_action(request).step != "terms":
        initial = {**TermsForm.initial_of(Subscription()), "capacity": seen.document.head.capacity_cores}
        first = TermsForm(shown=shown, initial=initial)
        return _terms(request, address, first, seen)
    terms = TermsForm(request.POST, shown=shown)
    if terms.is_valid():
        head, agreed = seen.document.head, terms.cleaned_data
        try:
            made = subscribe(
                policy_slug=policy,
                entry=path,
                **access,
                issuer=head.issuer,
                feed=head.feed,
                fingerprint=agreed["fingerprint"],
                capacity_cores=agreed["capacity"],
                settings=terms.settings(),
                reason=agreed["reason"],
                at=at,
                actor=actor,
            )
        except DomainError as refusal:
            terms.add_refusal(refusal)
        else:
            messages.success(request, _("Fetching now; the result appears here in a moment."))
            return SeeOther(subscription_presenters.subscription_url(made))
    return _terms(request, address, terms, seen, status=422)


@require_safe
def subscription(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """State, fetches and hours of a subscription; visible to actors who may mount at its entry."""
    return _page(request, _load(request, subscription_id))


@require_safe
def timeline(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """Fetch log, newest first; `?before=` continues it."""
    row = _load(request, subscription_id)
    name, page_url = subscription_presenters.site_name(row), subscription_presenters.subscription_url(row)
    return show_log(request, row, name=name, page_url=page_url)


@sensitive_post_parameters("token")
@require_POST
def act(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """Run an action: fetch, pause, resume, freeze, unfreeze, settings, capacity, trust, reset or unsubscribe."""
    row = _load(request, subscription_id)

    def show_refused(form: RefusableForm, status: int) -> HttpResponse:
        return _page(request, row, status=status, **{_FORM_OF.get(type(form), "action_form"): form})

    page_url = subscription_presenters.subscription_url(row)
    return run_action(request, "subscription", row.pk, _ACTIONS, page_url=page_url, show_refused=show_refused)


def _agree_capacity(*, kind: Kind, remote_id: int, **more: Any) -> None:
    control.agree_capacity(subscription=remote_id, **more)


_ACTIONS = {
    **common_actions(when_fetching=FETCHING, after_reset=_REREAD),
    "settings": RemoteAction(
        SubscriptionSettingsForm,
        control.change_settings,
        arguments=lambda form: {"settings": form.settings(), "token": form.cleaned_data["token"] or None},
    ),
    "capacity": RemoteAction(
        CapacityForm, _agree_capacity, _REREAD, arguments=lambda form: {"cores": form.cleaned_data["capacity"]}
    ),
    "unsubscribe": RemoteAction(ReasonForm, control.remove, gettext_lazy("Its usage was removed.")),
}


def _load(request: HttpRequest, subscription_id: int) -> Subscription:
    return get_subscription(subscription_id=subscription_id, actor=actor_of(request), at=clock.now())


def _entry_choices(actor: Actor, at: datetime) -> list[tuple[str, str]]:
    """Entries that other sites know as well: mounts and published subtrees."""
    choices = list_grid_entries(actor=actor, at=at)
    many = len({choice.policy_slug for choice in choices}) > 1

    def label(choice: GridChoice) -> str:
        words = {"path": choice.path, "what": choice.what}
        text = "%(path)s (%(what)s)"
        return f"{choice.policy_name}: {text % words}" if many else text % words

    return [(f"{choice.policy_slug}:{choice.path}", label(choice)) for choice in choices]


def _address(request: HttpRequest, form: FeedAddressForm, *, status: int = 200) -> HttpResponse:
    context = {"form": form, "crumbs": crumbs_of(_("Subscribe")), "has_places": form.has_entries}
    return render(request, "pages/federation/subscribe.html", context, status=status)


def _terms(
    request: HttpRequest, address: FeedAddressForm, form: TermsForm, seen: FeedPreview, *, status: int = 200
) -> HttpResponse:
    head = seen.document.head
    hours = seen.document.hours
    context = {
        "address": address,
        "form": form,
        "seen": seen,
        "head": head,
        "capacity": presentation.cores_text(head.capacity_cores),
        "n_hours": len(hours),
        "n_entries": len(seen.document.entries),
        "n_running": None if seen.document.running is None else len(seen.document.running.entry),
        "groups": publication_presenters.groups_of(seen.key.fingerprint),
        "place": address.policy_and_path,
        "crumbs": crumbs_of(_("Subscribe")),
    }
    return render(request, "pages/federation/subscribe_terms.html", context, status=status)


def _page(request: HttpRequest, row: Subscription, *, status: int = 200, **forms: RefusableForm) -> HttpResponse:
    form = forms.get("settings") or SubscriptionSettingsForm(initial=SubscriptionSettingsForm.initial_of(row))
    capacity = forms.get("capacity") or CapacityForm(
        initial={"capacity": f"{subscription_presenters.suggested_cores(row):g}"}
    )
    now, usage = clock.now(), load_reported_usage(row)
    tree = load_tree(row.policy)
    i = tree.index_of_uid(row.entry_uid)
    path = tree.path(i) if i is not None else ""
    stored = Revision.objects.filter(policy=row.policy, number=row.policy.head_number).values_list(
        "settings", flat=True
    )
    request.policy_slug = row.policy.slug  # type: ignore[attr-defined]  # the policy that the navigation shows
    context = {
        **shared_context(row, forms),
        "row": row,
        "act_url": reverse("pages:federation-subscription-act", args=[row.pk]),
        "site": subscription_presenters.site_name(row),
        "path": path,
        "entry_url": lines.entry_url(row.policy.slug, row.entry_uid, tree.name[i]) if i is not None else "",
        "summary": subscription_presenters.summary(row, usage, path or row.feed, now),
        "usage": usage,
        "unknown": subscription_presenters.unknown_text(row),
        "hours": subscription_presenters.hour_lines(usage),
        "agreed": presentation.cores_text(row.capacity_cores),
        "allowed": allowed_text(row.max_age_s),
        "capacity_text": subscription_presenters.capacity_text(row, usage),
        "running": presentation.cores_text(usage.running_cores),
        "speed": _speed(PolicySettings.from_stored(stored[0]), row.source.site) if stored else "1",
        "form": form,
        "capacity_form": capacity,
        "grid_url": f"{reverse('pages:federation-grid')}?policy={row.policy.slug}&entry={path}" if path else "",
        "now": now,
        "crumbs": crumbs_of(f"{subscription_presenters.site_name(row)}, {row.feed}"),
    }
    return render(request, "pages/federation/subscription.html", context, status=status)


def _speed(settings: PolicySettings, site: str) -> str:
    return f"{site_factor(site, settings.metric['site_factors']):g}"
