"""What needs attention, by kind, each with an action and its URL; and what ends soon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import numpy as np
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.accounts.actor import Actor
from apps.accounts.selectors import display_name
from apps.core.plugins import plugins
from apps.federation.conditions import Condition, age_of, condition_of
from apps.federation.grid.peers import MountablePolicy
from apps.federation.models import Mount, Remote, Subscription
from apps.mapping.attachments import key_of
from apps.mapping.claims import list_claims
from apps.mapping.permissions import MapRights
from apps.mapping.rules.rule_set import load_rule_set
from apps.pages.overview.unmapped import unmapped_text
from apps.policies.access.role_holders import GrantState, name_of
from apps.policies.models import ChangeSet, Policy
from apps.policies.operations.dated_shares import is_boost
from apps.policies.requests.inbox import Inbox
from apps.priorities.request_evidence import get_request_evidence
from apps.priorities.selectors import Overview
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.selectors.visible_snapshot import list_local_only
from apps.priorities.sentences import numbers
from apps.runs.models import Run
from apps.usage import selectors as usage
from apps.usage.quality import findings as quality
from apps.web.changes.change_titles import titles_of
from apps.web.links.addresses import review_url
from apps.web.shell import lines, presentation
from apps.web.texts import conditions
from apps.web.texts.request_texts import request_title

_RECENT = timedelta(days=7)
MOST_OF_ATTENTION = 3
# Conditions of fetched documents that are shown to everyone who sees the entry.
_OUTDATED = {
    Condition.STALE: gettext_lazy("%(name)s: the data of %(issuer)s is stale"),
    Condition.EXPIRED: gettext_lazy("%(name)s: the data of %(issuer)s has expired"),
    Condition.FROZEN: gettext_lazy("%(name)s: %(issuer)s is frozen"),
}


@dataclass(frozen=True, slots=True)
class AttentionItem:
    """One matter of a kind, with its action and URL. day: when something ends. is_done: of a step that was taken."""

    kind: str
    key: str
    icon: str
    title: str
    text: str
    url: str
    action: str
    classes: str = ""
    day: date | None = None
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class AskedItem:
    """A request for shares that waits for the reader. target, target_after: of the entry, as texts."""

    change_set: ChangeSet
    title: str
    target: str
    target_after: str
    used: str
    problem: str


@dataclass(frozen=True)
class AttentionKind:
    """All matters of one kind. n: how many there are, also those that aren't listed, which are at `url`."""

    kind: str
    title: str
    items: Sequence[AttentionItem]
    n: int
    url: str = ""
    asked: Sequence[AskedItem] = ()


ENDS, SETUP = "ends", "setup"
# In the order of the page. What isn't named here comes last.
_TITLES = {
    SETUP: gettext_lazy("First steps"),
    "requests": gettext_lazy("Requests for shares"),
    "reviews": gettext_lazy("Reviews"),
    "claims": gettext_lazy("Account claims"),
    "data": gettext_lazy("Usage data"),
    "sites": gettext_lazy("Other sites"),
    "notices": gettext_lazy("Notices"),
}


def list_attention_items(
    view: PolicyView, overview: Overview, inbox: Inbox, *, at: datetime, actor: Actor
) -> list[AttentionItem]:
    """All matters except requests; those of kind ENDS are dates, which another card lists."""
    items = [
        *_reviews(inbox, at, actor),
        *_claims(view, at, actor),
        *_failed(at, actor),
        *_unmapped(overview, actor),
        *_held(actor),
        *_peer_items(view, at, actor),
        *_ending_items(inbox),
    ]
    for plugin in plugins():
        items += plugin.attention_items(view=view, at=at, actor=actor)
    return items


def list_kinds(items: Sequence[AttentionItem], inbox: Inbox, actor: Actor) -> list[AttentionKind]:
    """Matters by kind; of each kind the first three."""
    by_kind: dict[str, list[AttentionItem]] = {kind: [] for kind in _TITLES}
    for item in items:
        if item.kind != ENDS:
            by_kind.setdefault(item.kind, []).append(item)
    inbox_url = reverse("pages:inbox")
    kinds = []
    if inbox.requests:
        asked = [_asked(each, actor) for each in inbox.requests[:MOST_OF_ATTENTION]]
        kinds.append(AttentionKind("requests", str(_TITLES["requests"]), (), len(inbox.requests), inbox_url, asked))
    for kind, same in by_kind.items():
        if same:
            n = len(inbox.reviews) if kind == "reviews" else sum(not item.is_done for item in same)
            url = inbox_url if kind == "reviews" else ""
            listed = same if kind == SETUP else same[:MOST_OF_ATTENTION]
            kinds.append(AttentionKind(kind, str(_TITLES.get(kind, kind)), listed, n, url))
    return kinds


def list_setup_steps(
    policy: Policy | None, *, has_sources: bool, has_shares: bool = False, is_mapped: bool = False, begin_url: str = ""
) -> list[AttentionItem]:
    """What an administrator sets up once, from what is there; empty when all of it is done.

    begin_url: where a first policy is made, which divides the shares and maps accounts.
    """
    tree, mappings = (
        (reverse("pages:policy", args=[policy.slug]), reverse("pages:mappings", args=[policy.slug]))
        if policy
        else (begin_url, begin_url)
    )
    steps = [
        setup_step(
            "sources",
            "database-import",
            _("Connect a usage source"),
            _("Its job records say who ran what."),
            reverse("pages:sources"),
            is_done=has_sources,
        ),
        setup_step(
            "shares",
            "adjustments-horizontal",
            _("Divide the shares"),
            _("Entries of the policy and their shares."),
            tree,
            is_done=has_shares,
        ),
        setup_step(
            "mapping",
            "id-badge-2",
            _("Map accounts to entries"),
            _("Usage counts where its account is mapped."),
            mappings,
            is_done=is_mapped,
        ),
    ]
    for plugin in plugins():
        steps += plugin.setup_steps(policy=policy)
    return [] if all(step.is_done for step in steps) else steps


def setup_step(key: str, icon: str, title: str, text: str, url: str, *, is_done: bool) -> AttentionItem:
    """One step. icon: until it is done. url: empty where there is nothing to open yet."""
    shown, classes = ("circle-check", "ok") if is_done else (icon, "")
    return AttentionItem(SETUP, key, shown, title, text, url, _("Open"), classes, is_done=is_done)


def list_ends(items: Sequence[AttentionItem]) -> list[AttentionItem]:
    """What ends soon, the next first."""
    return sorted((item for item in items if item.kind == ENDS), key=lambda item: item.day or date.max)


def _asked(change_set: ChangeSet, actor: Actor) -> AskedItem:
    evidence = get_request_evidence(change_set, actor=actor, with_ranks=False)
    entry = evidence.entry
    shares = numbers.change_shares(entry.target if entry else None, evidence.target_after)
    return AskedItem(
        change_set=change_set,
        title=request_title(evidence, entry.name if entry else _("an entry that is archived")),
        target=shares.before if entry else "",
        target_after=shares.after if evidence.target_after is not None else "",
        used=numbers.percent(entry.actual, shares.decimals) if entry else "",
        problem=evidence.problem,
    )


def _reviews(inbox: Inbox, at: datetime, actor: Actor) -> Iterator[AttentionItem]:
    reviews = inbox.reviews[:MOST_OF_ATTENTION]
    titles = titles_of(reviews, actor=actor, at=at) if reviews else {}
    for change_set in reviews:
        title = titles[change_set.pk]
        n = len(change_set.operations)
        text = ngettext("%(policy)s: %(n)s edit, %(author)s", "%(policy)s: %(n)s edits, %(author)s", n)
        text %= {"policy": change_set.policy.name, "n": n, "author": display_name(change_set.author_name)}
        if title.reason:
            text = f"{text}: “{title.reason}”"
        yield AttentionItem(
            "reviews",
            "review",
            "git-pull-request",
            title.text,
            text,
            review_url(change_set.pk),
            _("Review"),
            "warn",
        )


def _claims(view: PolicyView, at: datetime, actor: Actor) -> Iterator[AttentionItem]:
    rights = MapRights(view.policy, view.tree, actor, at)
    if not rights.maps_anywhere:
        return
    claims = list_claims(rights, np.ones(len(view.tree), dtype=np.bool_))
    if not claims:
        return
    n, first = len(claims), claims[0]
    entry = load_rule_set(view.policy, view.tree).on(view.tree).resolve(key_of(first.accounts[0])).entry
    url = reverse("pages:members", kwargs={"policy": view.policy.slug, "uid": view.tree.uuid(max(entry, 0))})
    title = ngettext("%(n)s account claim", "%(n)s account claims", n) % {"n": n}
    text = _("%(account)s, by %(who)s") % {
        "who": first.claim.user,
        "account": f"{first.claim.namespace}:{first.claim.user_name}",
    }
    yield AttentionItem("claims", "claims", "id-badge-2", title, text, url, _("Decide"), "warn")


def _peer_items(view: PolicyView, at: datetime, actor: Actor) -> Iterator[AttentionItem]:
    """Other sites: local-only fallbacks, peers without contact, and blocked peers."""
    fallen = list_local_only(view)
    for each in fallen[:MOST_OF_ATTENTION]:
        url = lines.entry_url(view.policy.slug, each.uid, each.path.rpartition("/")[2])
        yield AttentionItem("sites", "local_only", "world", each.title.text, each.reason, url, _("View"), "warn")
    reported = {each.uid for each in fallen}
    place = MountablePolicy(view.policy, at, actor)
    outdated = [_outdated(view, place, remote, at) for remote in _remotes(view) if remote.entry_uid not in reported]
    yield from [item for item in outdated if item][:MOST_OF_ATTENTION]


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
        url = reverse(f"pages:federation-{kind}", args=[remote.pk])
    title = _OUTDATED[condition] % {"name": view.tree.path(i), "issuer": remote.issuer}
    age_s = age_of(remote, at)
    age = _("No contact yet.")
    if age_s is not None:
        age = _("Last contact %(age)s ago.") % {"age": presentation.age(age_s)}
    acts = Remote.StaleAction.FREEZE if condition is Condition.FROZEN else remote.stale_action
    acting = conditions.meanwhile(acts)
    return AttentionItem(
        "sites", f"peer.{condition} {acting.key}", "world", title, f"{age} {acting}", url, _("View"), "warn"
    )


def _failed(at: datetime, actor: Actor) -> Iterator[AttentionItem]:
    if not actor.is_admin:
        return
    for usage_import in usage.list_imports(actor=actor, limit=20):
        if usage_import.run.state == Run.State.FAILED and usage_import.created_at >= at - _RECENT:
            title = _("Import of %(file)s failed") % {"file": usage_import.file_name}
            url = reverse("pages:import", kwargs={"import_id": usage_import.pk})
            yield AttentionItem(
                "data", "import_failed", "alert-octagon", title, usage_import.run.error[:200], url, _("Why"), "bad"
            )


def _unmapped(overview: Overview, actor: Actor) -> Iterator[AttentionItem]:
    if not overview.n_unmapped or not actor.is_admin:
        return
    n = overview.n_unmapped
    title = ngettext("%(n)s unmapped account", "%(n)s unmapped accounts", n)
    url = reverse("pages:mappings", kwargs={"policy": overview.policy_slug})
    title, text = title % {"n": numbers.count(n)}, unmapped_text(overview)
    yield AttentionItem("data", "unmapped", "user-question", title, text, url, _("Decide"), "warn")


def _held(actor: Actor) -> Iterator[AttentionItem]:
    if not actor.is_admin:
        return
    n = sum(quality.count_held(actor=actor).values())
    if n:
        title = ngettext("%(n)s stretch of hours is held", "%(n)s stretches of hours are held", n) % {"n": n}
        text = _(
            "Two sources reported the same hours of a site. The later report is held until an administrator decides."
        )
        yield AttentionItem("data", "held", "stack-2", title, text, reverse("pages:overlaps"), _("Decide"), "warn")


def _ending_items(inbox: Inbox) -> Iterator[AttentionItem]:
    """Shares, boosts and roles of the inbox that end soon."""
    for shares in inbox.shares[:MOST_OF_ATTENTION]:
        url = lines.entry_url(shares.policy.slug, shares.uid, shares.name)
        title = _("Boost of %(name)s") if is_boost(shares.dates) else _("Shares of %(name)s")
        title %= {"name": shares.name}
        yield AttentionItem(ENDS, "shares_end", "clock", title, shares.path, url, _("View"), day=shares.dates.ends_on)
    for ending in inbox.grants[:MOST_OF_ATTENTION]:
        grant = ending.line.grant
        who = _("You") if ending.line.is_own else name_of(grant)
        is_over = ending.line.state is GrantState.EXPIRED
        text = _("%(entry)s, expired") if is_over else _("%(entry)s")
        text %= {"entry": ending.line.entry_name}
        url = reverse("pages:access", kwargs={"policy": ending.policy.slug})
        title = _("%(who)s: %(role)s") % {"who": who, "role": grant.get_role_display()}
        day = grant.expires_at.date() if grant.expires_at else None
        yield AttentionItem(ENDS, "role_ends", "key", title, text, url, _("View"), day=day)
