"""The grid view: an entry's targets against usage over all sites, and the usage delivered by each site.

Targets, actual shares and balance are the newest snapshot's; deliveries are recorded core-hours in the policy's window
up to that snapshot. Viewers who may see sums only get the state of the last finished day, and a group's deliveries only
if the rule of five holds at every site: for the whole window, and for the increase of each of the last days (see
`priorities.settled`). Otherwise one site's number could reveal one person's usage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import UUID

import numpy as np
from django.conf import settings as site_settings

from apps.accounts.actor import Actor
from apps.core.errors import NotFound
from apps.federation.grid.sites import SiteColumn, load_sites
from apps.federation.models import Mount, Publication
from apps.mapping.permissions import load_visibility
from apps.policies.models import Policy
from apps.policies.selectors import list_policies
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.stored import load_tree
from apps.priorities.delivered_usage import BySite, load_by_site
from apps.priorities.metering import window_of
from apps.priorities.models import Snapshot
from apps.priorities.selectors.rows import EntryRow, PolicyView, open_view
from apps.priorities.suppression import Amounts, shown_entries
from apps.priorities.visibility import daily_snapshot_before

MOST_GRID_ROWS = 300
MOST_GRID_LEVELS = 6
_DAYS_BEFORE = 3
_EVER = 100 * 366 * 86_400.0  # a window that reaches further back counts as unlimited


@dataclass(frozen=True, slots=True)
class GridChoice:
    """An entry that is shared between sites."""

    policy_slug: str
    policy_name: str
    path: str
    name: str
    why: Literal["published", "mounted"]
    what: str  # name of the publication, or the authority of the mount


@dataclass(frozen=True, slots=True)
class GridRow:
    """The entry (depth 0) or one below it. core_s: delivered by each site, in the order of the sites; None if hidden.

    `entry` has target, actual, deviation and state of the newest snapshot.
    """

    entry: EntryRow
    depth: int
    core_s: tuple[float, ...] | None

    @property
    def total_core_s(self) -> float | None:
        return None if self.core_s is None else sum(self.core_s)

    def part_of(self, site: int) -> float | None:
        """The site's part of all core-seconds delivered to the entry, 0..1."""
        total = self.total_core_s
        return self.core_s[site] / total if self.core_s is not None and total else None


@dataclass(frozen=True)
class Grid:
    """The grid view of one entry. as_of: instant of snapshot and amounts; None if nothing is computed yet.

    since: the beginning of the window, None if unlimited. scope: whether the entry's children are compared by "global"
    or "local" usage. fallback_since: since when it is local only because peers are unreachable. n_more: rows that
    aren't listed.
    """

    policy_slug: str
    policy_name: str
    revision: int
    settings: PolicySettings = field(repr=False)
    path: str
    name: str
    uid: UUID
    at: datetime
    as_of: datetime | None
    since: datetime | None
    scope: str
    fallback_since: datetime | None
    levels: int
    deepest: int
    sites: tuple[SiteColumn, ...]
    rows: tuple[GridRow, ...]
    n_more: int
    shows_sums: bool

    @property
    def own(self) -> GridRow:
        """The row of the entry itself."""
        return self.rows[0]

    @property
    def children(self) -> tuple[GridRow, ...]:
        return tuple(row for row in self.rows if row.depth == 1)


def list_grid_entries(*, actor: Actor, at: datetime) -> list[GridChoice]:
    """Published and mounted entries that the actor may see, by policy and path."""
    choices: list[GridChoice] = []
    for policy in list_policies(actor=actor):
        shared = _shared_in(policy)
        if not shared or policy.head_number < 1:
            continue
        tree = load_tree(policy)
        mask = load_visibility(policy=policy, tree=tree, at=at, actor=actor).mask
        places = ((tree.index_of_uid(uid), why) for uid, why in shared.items())
        choices += sorted(
            (
                GridChoice(policy.slug, policy.name, tree.path(i), tree.name[i], *why)
                for i, why in places
                if i is not None and mask[i]
            ),
            key=lambda choice: choice.path,
        )
    return choices


def load_grid(*, policy_slug: str, entry: str, actor: Actor, at: datetime, levels: int = 1) -> Grid:
    """The grid view of an entry (a path) and `levels` below it.

    Raises:
        NotFound: there is no such policy or entry, or the actor may not see it.
    """
    view = open_view(policy_slug=policy_slug, actor=actor)
    top = view.tree.index_of_path(entry) if "\0" not in entry else None
    if top is None or not view.visibility.may_see(top):
        raise NotFound(f"There is no entry {entry[:200]!r} in {policy_slug[:80]}.")
    levels = min(max(levels, 1), MOST_GRID_LEVELS)
    listed, n_more = _listed(view, top, levels)
    since = _window_start(view)
    by_site = None if view.as_of is None else _load(view, since)
    below = by_site.below if by_site is not None else np.zeros((1, len(view.tree)))
    is_shown = _described(view, by_site)
    amounts = (
        dict(zip(by_site.origins, below[:, top].tolist(), strict=True)) if by_site is not None and is_shown[top] else {}
    )
    sites, fallback_since = load_sites(
        policy=view.policy,
        tree=view.tree,
        entry=top,
        amounts=amounts,
        since=since,
        as_of=view.as_of,
        first_at=by_site.first_at if by_site is not None else {},
        at=at,
    )
    columns = [
        by_site.origins.index(site.origin) if by_site and site.origin in by_site.origins else -1 for site in sites
    ]
    code, scopes = view.tree.effective_scopes()
    rows = tuple(
        GridRow(
            entry=view.row(i),
            depth=int(view.tree.level[i] - view.tree.level[top]),
            core_s=tuple(float(below[c, i]) if c >= 0 else 0.0 for c in columns) if is_shown[i] else None,
        )
        for i in listed
    )
    return Grid(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        revision=view.revision,
        settings=view.settings,
        path=view.tree.path(top),
        name=view.tree.name[top],
        uid=view.tree.uuid(top),
        at=at,
        as_of=view.as_of,
        since=since,
        scope="local" if fallback_since else scopes[int(code[top])][0],
        fallback_since=fallback_since,
        levels=levels,
        deepest=len(view.tree.subtree(top)) - 1,
        sites=sites,
        rows=rows,
        n_more=n_more,
        shows_sums=view.shows_sums,
    )


def _shared_in(policy: Policy) -> Mapping[UUID, tuple[Literal["published", "mounted"], str]]:
    shared: dict[UUID, tuple[Literal["published", "mounted"], str]] = {}
    for uid, issuer in Mount.objects.filter(policy=policy).values_list("entry_uid", "issuer"):
        shared[uid] = ("mounted", issuer)
    for uid, name in Publication.objects.filter(policy=policy).values_list("entry_uid", "name"):
        shared[uid] = ("published", name)
    return shared


def _listed(view: PolicyView, top: int, levels: int) -> tuple[list[int], int]:
    """The entry and visible entries of the levels below it, depth first, and the number of omitted ones."""
    entries: list[int] = []
    waiting, n = [(top, 0)], 0
    while waiting:
        i, depth = waiting.pop()
        n += 1
        if len(entries) < MOST_GRID_ROWS:
            entries.append(i)
        if depth < levels:
            waiting += [(child, depth + 1) for child in reversed(view.visible_children(i))]
    return entries, n - len(entries)


def _window_start(view: PolicyView) -> datetime | None:
    if view.as_of is None:
        return None
    as_of_s = view.as_of.timestamp()
    begins_s = window_of(view.settings.window).begins_s(as_of_s)
    return None if begins_s is None or as_of_s - begins_s > _EVER else datetime.fromtimestamp(begins_s, UTC)


def _load(view: PolicyView, since: datetime | None) -> BySite:
    assert view.as_of is not None  # noqa: S101 - checked by the caller
    cuts = _days_before(view) if view.shows_sums else ()
    return load_by_site(policy=view.policy, tree=view.tree, from_at=since, to_at=view.as_of, cuts=cuts)


def _days_before(view: PolicyView) -> list[datetime]:
    """Earlier instants whose sums were shown, from which the increase since then could be computed."""
    instants: list[datetime] = []
    day = view.snapshot.computed_at if view.snapshot is not None else view.now
    for _ in range(_DAYS_BEFORE):
        pk = daily_snapshot_before(view.policy, day)
        if pk is None:
            break
        as_of, day = Snapshot.objects.values_list("as_of", "computed_at").get(pk=pk)
        if view.snapshot is None or pk != view.snapshot.snapshot_id:
            instants.append(as_of)
        day = day.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(minutes=10)
    return instants


def _described(view: PolicyView, by_site: BySite | None) -> Mask:
    """Mask of entries whose deliveries by site may be shown."""
    if by_site is None or not view.shows_sums:
        return view.visibility.mask if by_site is not None else np.zeros(len(view.tree), dtype=np.bool_)
    own = by_site.own[:, by_site.own.sum(axis=(0, 2)) > 0]  # a site without any usage reveals nothing
    if not own.shape[1]:
        return view.visibility.outright & view.visibility.mask
    # increases between consecutive instants; the first counts from the beginning
    since = np.cumsum(own[::-1], axis=0)[::-1]
    amounts = Amounts.of(view.tree, since.reshape(-1, len(view.tree)), _people(view.tree))
    shown = shown_entries(
        view.tree,
        amounts,
        seen=view.visibility.mask,
        outright=view.visibility.outright,
        smallest=int(site_settings.FAIRSHARE_SMALLEST_GROUP),
    )
    mask: Mask = shown & view.visibility.mask & (view.shows_numbers | (view.visibility.outright & view.visibility.mask))
    return mask


def _people(tree: TreeColumns) -> Mask:
    mask: Mask = ~tree.is_reserve & (tree.n_children == 0)
    return mask
