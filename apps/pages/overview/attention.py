"""What needs attention on the overview, each with an action and its URL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.accounts.actor import Actor
from apps.accounts.selectors import display_name
from apps.core.plugins import plugins
from apps.federation.grid.peers import MountablePolicy
from apps.federation.models import Mount, Remote, Subscription
from apps.federation.staleness import Condition, age_of, condition_of
from apps.mapping.attachments import key_of
from apps.mapping.claims import list_claims
from apps.mapping.permissions import MapRights
from apps.mapping.rules.rule_set import load_rule_set
from apps.pages.overview.verdict import compared, distance
from apps.policies.access.role_holders import GrantState, name_of
from apps.policies.requests.inbox import Inbox, get_inbox
from apps.priorities import selectors
from apps.priorities.selectors import Overview
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.selectors.visible_snapshot import list_local_only
from apps.runs.models import Run
from apps.usage import selectors as usage
from apps.usage.quality import findings as quality
from apps.web import conditions
from apps.web.shell import lines, presentation
from apps.web.shell.lines import Line
from apps.web.shell.presentation import long_day
from apps.web.svg.bars import State

_RECENT = timedelta(days=7)
MOST_EACH = 3
# Conditions of fetched documents that are shown to everyone who sees the entry.
_OUTDATED = {
    Condition.STALE: gettext_lazy("%(name)s: the data of %(issuer)s is stale"),
    Condition.EXPIRED: gettext_lazy("%(name)s: the data of %(issuer)s has expired"),
    Condition.FROZEN: gettext_lazy("%(name)s: %(issuer)s is frozen"),
}


@dataclass(frozen=True, slots=True)
class AttentionItem:
    """One matter, with its action and URL."""

    key: str
    icon: str
    title: str
    text: str
    url: str
    action: str
    classes: str = ""


def list_attention_items(
    view: PolicyView, overview: Overview, drawn: list[Line], *, at: datetime, actor: Actor
) -> list[AttentionItem]:
    """Concerns in order: decisions, failures, what ends soon, then entries outside their tolerance."""
    inbox = get_inbox(at=at, actor=actor)
    return [
        *_decisions(inbox),
        *_claims(view, at, actor),
        *_late(view, actor),
        *_peer_items(view, at, actor),
        *_failed(at, actor),
        *_unmapped(overview, actor),
        *_held(actor),
        *_ending_items(inbox),
        *(item for plugin in plugins() for item in plugin.attention_items(view=view, at=at, actor=actor)),
        *_outside(drawn),
    ]


def _decisions(inbox: Inbox) -> Iterator[AttentionItem]:
    url = reverse("dashboard:inbox")
    if inbox.requests:
        n = len(inbox.requests)
        title = ngettext("%(n)s request for shares", "%(n)s requests for shares", n) % {"n": n}
        names = list(dict.fromkeys(display_name(each.author_name) for each in inbox.requests))
        yield AttentionItem(
            "requests",
            "message",
            title,
            ", ".join(names[:3]) + (", …" if len(names) > 3 else ""),
            url,
            _("Answer"),
            "warn",
        )
    for change_set in inbox.reviews[:MOST_EACH]:
        title = _("Review: %(title)s") % {"title": presentation.title_of(change_set)}
        n = len(change_set.operations)
        text = ngettext("%(policy)s: %(n)s edit, %(author)s", "%(policy)s: %(n)s edits, %(author)s", n)
        text %= {"policy": change_set.policy.name, "n": n, "author": display_name(change_set.author_name)}
        where = reverse("dashboard:change", kwargs={"change_set": change_set.pk})
        yield AttentionItem("review", "git-pull-request", title, text, where, _("Review"), "warn")
    more = len(inbox.reviews) - MOST_EACH
    if more > 0:
        title = ngettext("%(n)s more", "%(n)s more", more) % {"n": more}
        yield AttentionItem("more_reviews", "git-pull-request", title, "", url, _("Review"), "warn")


def _claims(view: PolicyView, at: datetime, actor: Actor) -> Iterator[AttentionItem]:
    rights = MapRights(view.policy, view.tree, actor, at)
    if not rights.maps_anywhere:
        return
    claims = list_claims(rights, np.ones(len(view.tree), dtype=np.bool_))
    if not claims:
        return
    n, first = len(claims), claims[0]
    entry = load_rule_set(view.policy, view.tree).on(view.tree).resolve(key_of(first.accounts[0])).entry
    url = reverse("dashboard:members", kwargs={"policy": view.policy.slug, "uid": view.tree.uuid(max(entry, 0))})
    title = ngettext("%(n)s account claim", "%(n)s account claims", n) % {"n": n}
    text = _("%(account)s, by %(who)s") % {
        "who": first.claim.user,
        "account": f"{first.claim.namespace}:{first.claim.user_name}",
    }
    yield AttentionItem("claims", "id-badge-2", title, text, url, _("Decide"), "warn")


def _late(view: PolicyView, actor: Actor) -> Iterator[AttentionItem]:
    fresh = selectors.freshness(policy_slug=view.policy.slug, actor=actor)
    for problem in fresh.problems:
        title, url = problem, reverse("dashboard:sources")
        yield AttentionItem("late", "clock", title, "", url, _("View"), "warn")


def _peer_items(view: PolicyView, at: datetime, actor: Actor) -> Iterator[AttentionItem]:
    """Other sites: local-only fallbacks, peers without contact, and blocked peers."""
    fallen = list_local_only(view)
    for each in fallen[:MOST_EACH]:
        url = lines.entry_url(view.policy.slug, each.uid, each.path.rpartition("/")[2])
        yield AttentionItem("local_only", "world", each.title.text, each.reason, url, _("View"), "warn")
    reported = {each.uid for each in fallen}
    place = MountablePolicy(view.policy, at, actor)
    outdated = [_outdated(view, place, remote, at) for remote in _remotes(view) if remote.entry_uid not in reported]
    yield from [item for item in outdated if item][:MOST_EACH]


def _remotes(view: PolicyView) -> list[Mount | Subscription]:
    mounts = Mount.objects.filter(policy=view.policy).defer("document").order_by("pk")
    return [*mounts, *Subscription.objects.filter(policy=view.policy).order_by("pk")]


def _outdated(
    view: PolicyView, place: MountablePolicy, remote: Mount | Subscription, at: datetime
) -> AttentionItem | None:
    """Item about outdated data of a peer; its URL is the mount for its managers, else the entry."""
    i = view.tree.index_of_uid(remote.entry_uid)
    condition = condition_of(remote, is_held=False, at=at)
    if i is None or condition not in _OUTDATED or not view.visibility.may_see(i):
        return None
    name, kind = view.tree.name[i], "mount" if isinstance(remote, Mount) else "subscription"
    url = lines.entry_url(view.policy.slug, remote.entry_uid, name)
    if place.decides(remote.entry_uid):
        url = reverse(f"dashboard:federation-{kind}", args=[remote.pk])
    title = _OUTDATED[condition] % {"name": view.tree.path(i), "issuer": remote.issuer}
    age_s = age_of(remote, at)
    age = _("No contact yet.")
    if age_s is not None:
        age = _("Last contact %(age)s ago.") % {"age": presentation.age(age_s)}
    acts = Remote.StaleAction.FREEZE if condition is Condition.FROZEN else remote.stale_action
    acting = conditions.meanwhile(acts)
    return AttentionItem(f"peer.{condition} {acting.key}", "world", title, f"{age} {acting}", url, _("View"), "warn")


def _failed(at: datetime, actor: Actor) -> Iterator[AttentionItem]:
    if not actor.is_admin:
        return
    for usage_import in usage.list_imports(actor=actor, limit=20):
        if usage_import.run.state == Run.State.FAILED and usage_import.created_at >= at - _RECENT:
            title = _("Import of %(file)s failed") % {"file": usage_import.file_name}
            url = reverse("dashboard:import", kwargs={"import_id": usage_import.pk})
            yield AttentionItem(
                "import_failed", "alert-octagon", title, usage_import.run.error[:200], url, _("Why"), "bad"
            )


def _unmapped(overview: Overview, actor: Actor) -> Iterator[AttentionItem]:
    if not overview.n_unmapped or not actor.is_admin:
        return
    n = overview.n_unmapped
    title = ngettext("%(n)s unmapped account", "%(n)s unmapped accounts", n)
    url = reverse("dashboard:mappings", kwargs={"policy": overview.policy_slug})
    hours = presentation.core_hours(overview.unmapped_core_s)
    title, text = title % {"n": presentation.count(n)}, _("%(hours)s core-h") % {"hours": hours}
    yield AttentionItem("unmapped", "user-question", title, text, url, _("Decide"), "warn")


def _held(actor: Actor) -> Iterator[AttentionItem]:
    if not actor.is_admin:
        return
    n = sum(quality.count_held(actor=actor).values())
    if n:
        title = ngettext("%(n)s stretch of hours is held", "%(n)s stretches of hours are held", n) % {"n": n}
        text = _(
            "Two sources reported the same hours of a site. The later report is held until an administrator decides."
        )
        yield AttentionItem("held", "stack-2", title, text, reverse("dashboard:overlaps"), _("Decide"), "warn")


def _ending_items(inbox: Inbox) -> Iterator[AttentionItem]:
    """Shares, boosts and roles of the inbox that end soon."""
    for shares in inbox.shares[:MOST_EACH]:
        day = long_day(shares.dates.ends_on) if shares.dates.ends_on else ""
        url = lines.entry_url(shares.policy.slug, shares.uid, shares.name)
        title = _("%(name)s: shares end %(day)s") % {"name": shares.name, "day": day}
        yield AttentionItem("shares_end", "calendar", title, shares.path, url, _("View"))
    for ending in inbox.grants[:MOST_EACH]:
        grant = ending.line.grant
        who = _("You") if ending.line.is_own else name_of(grant)
        day = long_day(grant.expires_at.date()) if grant.expires_at else ""
        is_over = ending.line.state is GrantState.EXPIRED
        text = _("%(entry)s, expired %(day)s") if is_over else _("%(entry)s, until %(day)s")
        text %= {"entry": ending.line.entry_name, "day": day}
        url = reverse("dashboard:access", kwargs={"policy": ending.policy.slug})
        title = _("%(who)s: %(role)s") % {"who": who, "role": grant.get_role_display()}
        yield AttentionItem("role_ends", "key", title, text, url, _("View"))


def _outside(drawn: list[Line]) -> Iterator[AttentionItem]:
    out = [line for line in compared(drawn) if line.balance and line.balance.state in {State.OVER, State.UNDER}]
    for line in sorted(out, key=distance, reverse=True)[:MOST_EACH]:
        if line.balance is None:
            continue
        text = _("%(actual)s, target %(target)s") % {"actual": line.actual, "target": line.target}
        title = f"{line.entry.name}: {line.balance.text}"
        state, icon = line.balance.state, line.balance.icon
        yield AttentionItem(state.value, icon, title, text, line.url, _("Why"), f"{state} solid")
