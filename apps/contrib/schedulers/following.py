"""Follow the accounts and users of a Slurm cluster, as its agent last listed them, without its shares."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from apps.accounts.actor import SYSTEM, Actor
from apps.contrib.schedulers.models import Scheduler, ShareListing
from apps.contrib.schedulers.selectors import get_scheduler
from apps.contrib.schedulers.services import find_to_change, log, refusals_of
from apps.contrib.schedulers.share_listing import ListedShares, load_listing
from apps.core.derived_state import in_memory
from apps.core.errors import Conflict, DomainError, Invalid
from apps.policies.files.exports import ListedAssociation, document_of_slurm
from apps.policies.files.import_export import (
    FileImport,
    ImportPlan,
    PolicyImport,
    import_policy,
    plan_import,
    proposes_same,
    refuse_cut_off,
    refuse_other_cluster,
)
from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.formats.registry import get_format
from apps.policies.models import ChangeSet
from apps.policies.services import withdraw_change_set
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.difference import ADDED, ARCHIVED, CHANGES, MOVED, RENAMED, Comparison, compare
from apps.policies.tree.following import follow_document
from apps.policies.tree.stored import load_tree

logger = logging.getLogger(__name__)
DERIVED_STATE = (
    in_memory(
        "_known",
        holds="how a scheduler's accounts and users differ from a policy's entries",
        key="digests of the tree and of the listing, and its cluster",
        inputs="the revision's tree and the agent's last listing",
        range="one tree and one listing",
        ends="the newest four push it out",
    ),
)
FORMAT = "sacctmgr"
FOLLOWED = (ADDED, MOVED, RENAMED, ARCHIVED)


_MOST_KNOWN_LISTINGS = 4
_known: OrderedDict[tuple[str, str, str], tuple[AssociationChanges | None]] = OrderedDict()


@dataclass(frozen=True)
class AssociationChanges:
    """How the scheduler's accounts and users differ from the policy's entries, its shares aside.

    paths: of all entries that differ, those of added ones first; of archived ones as they are in the policy.
    """

    taken_at: datetime
    counts: Mapping[str, int]  # of FOLLOWED
    paths: Mapping[str, Sequence[str]]

    @property
    def n(self) -> int:
        return sum(self.counts.values())


def why_not(scheduler: Scheduler) -> str:
    """Why its associations can't be followed; "" if they can."""
    if scheduler.kind != Scheduler.Kind.SLURM:
        return _("Only accounts and users of Slurm are followed.")
    if scheduler.subtree_uid is not None:
        return _("It runs on a part of the policy, and a cluster’s accounts are a whole tree.")
    clusters = ShareListing.objects.filter(scheduler__policy=scheduler.policy, scheduler__kind=scheduler.kind)
    if len(set(clusters.values_list("cluster", flat=True))) > 1:
        return _("Several clusters run on this policy: their accounts may differ, so none is followed.")
    return ""


def find_changes(scheduler: Scheduler, tree: TreeColumns) -> AssociationChanges | None:
    """The changes of the newest listing; None if there is none, or `plan_following` refuses it.

    tree: the policy's. The caller checks permission. Notices ask every five minutes for what hardly ever changes: the
    last answers stay in memory.
    """
    stored = ShareListing.objects.filter(scheduler=scheduler).defer("data").first()
    if stored is None or why_not(scheduler):
        return None
    try:
        refuse_other_cluster(scheduler.policy, stored.cluster)
    except Invalid:
        return None
    known = _known.get((tree.digest, stored.cluster, stored.digest))
    if known is None:
        listing = load_listing(scheduler)
        if listing is None:
            return None
        known = (_compute_changes(listing, tree),)
        if tree.digest:
            _known[tree.digest, listing.cluster, listing.digest] = known
        while len(_known) > _MOST_KNOWN_LISTINGS:
            _known.popitem(last=False)
    (changes,) = known
    return None if changes is None else replace(changes, taken_at=stored.taken_at)


def _compute_changes(listing: ListedShares, tree: TreeColumns) -> AssociationChanges | None:
    try:
        declared = _document(listing, tree)
        followed = follow_document(declared, tree, fitted=get_format(FORMAT).fit(tree)).tree
        refuse_cut_off(tree, followed)
    except Invalid:
        return None
    return changes_of(compare(tree, followed, most=len(tree) + len(followed)), listing.taken_at)


def changes_of(comparison: Comparison, taken_at: datetime) -> AssociationChanges:
    """What follows of a comparison that lists every entry that differs."""
    counts = dict(zip(CHANGES, comparison.counted, strict=True))
    paths = {what: sorted(each.path for each in comparison.entries if what in each.changes) for what in FOLLOWED}
    return AssociationChanges(taken_at, {what: counts[what] for what in FOLLOWED}, paths)


def get_changes(*, name: str, at: datetime, actor: Actor) -> AssociationChanges | None:
    """As `find_changes`, for a manager of the scheduler's policy."""
    scheduler = get_scheduler(name=name, at=at, actor=actor).scheduler
    return find_changes(scheduler, load_tree(scheduler.policy))


def plan_following(*, name: str, at: datetime, actor: Actor) -> ImportPlan:
    """What `follow_scheduler` would change.

    Raises:
        Conflict: it can't be followed (`not_followed`), or its agent has listed nothing (`no_shares`).
        Invalid: the listing isn't one tree, lacks most of the policy, or is of another cluster than the last import.
    """
    scheduler = find_to_change(name, actor, at)
    return plan_import(file=_file_of(scheduler), at=at, actor=actor)


def follow_scheduler(*, name: str, at: datetime, actor: Actor) -> PolicyImport:
    """Make a draft of the changes; without any there is none, and an open draft of the same is returned.

    Raises: as `plan_following`.
    """
    scheduler = find_to_change(name, actor, at)
    with refusals_of("scheduler.followed", actor, at, scheduler.policy.slug, name):
        with transaction.atomic():
            done = import_policy(file=_file_of(scheduler), reason=_reason(scheduler.name), at=at, actor=actor)
            if done.change_set is not None and not done.was_open:
                log("scheduler.followed", scheduler, at, actor, change_set=done.change_set.pk)
        return done


def propose_followed(*, at: datetime) -> int:
    """Make or find a draft for each scheduler that follows; returns their number. What can't be followed has none.

    One draft a policy: an earlier one that nobody has edited is withdrawn when Slurm differs otherwise. What a person
    withdrew isn't proposed again, until Slurm or the policy changes.
    """
    n = 0
    schedulers = Scheduler.objects.filter(follows=True).exclude(mode=Scheduler.Mode.OFF).select_related("policy")
    for scheduler in schedulers.exclude(policy__archived_at__isnull=False):
        try:
            with transaction.atomic():
                n += _propose(scheduler, at)
        except DomainError as refusal:
            logger.warning("The accounts of %s are not followed: %s", scheduler.name, refusal)
    return n


def _propose(scheduler: Scheduler, at: datetime) -> bool:
    """Whether there is a draft of its changes now."""
    changes = find_changes(scheduler, load_tree(scheduler.policy))
    if changes is None:
        return False
    name, origin = scheduler.name, ChangeSet.Origin.IMPORT
    imports = ChangeSet.objects.filter(policy=scheduler.policy, origin=origin, author=None)
    is_followed = Q(reason=_reason(name)) | Q(state=ChangeSet.State.PUBLISHED)  # who publishes may write another reason
    last = imports.filter(is_followed).order_by("-pk").first()
    draft = None
    if changes.n:
        withdrawn = last if last is not None and last.state == ChangeSet.State.WITHDRAWN else None
        if withdrawn is not None and proposes_same(withdrawn, plan_following(name=name, at=at, actor=SYSTEM)):
            return False
        draft = follow_scheduler(name=name, at=at, actor=SYSTEM).change_set
    if last is not None and last != draft and last.state == ChangeSet.State.DRAFT and last.version == 1:
        reason = _("%(name)s has changed since") % {"name": name}
        withdraw_change_set(id=last.pk, version=last.version, reason=reason, at=at, actor=SYSTEM)
    return draft is not None


def _reason(name: str) -> str:
    return _("Accounts and users as in %(name)s") % {"name": name}


def _file_of(scheduler: Scheduler) -> FileImport:
    reason = why_not(scheduler)
    if reason:
        raise Conflict(reason, code="not_followed")
    listing = load_listing(scheduler)
    if listing is None:
        raise Conflict(_("The agent has not listed shares yet."), code="no_shares")
    declared = _document(listing, load_tree(scheduler.policy))
    return FileImport(policy_slug=scheduler.policy.slug, format=FORMAT, follow=True, listed=declared)


def _document(listing: ListedShares, tree: TreeColumns) -> ParsedDocument:
    rows = [ListedAssociation(row.group, row.user, row.partition, row.parent, row.shares) for row in listing.rows]
    return document_of_slurm(listing.cluster, rows, tree)
