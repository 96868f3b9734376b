"""Remove policies and usage sources that nothing depends on; archive and restore others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Literal

from django.db import models, transaction
from django.db.models import Q
from django.utils.translation import gettext_lazy

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.core.errors import Conflict, FieldProblem, NotAllowed
from apps.policies.changesets.change_sets import require_reason
from apps.policies.models import ChangeSet, Entry, Pin, Policy, Revision
from apps.policies.publishing.revisions import lock_policy
from apps.policies.recompute_runs import queue_recompute, subject_of
from apps.policies.selectors import get_policy
from apps.policies.services import require_admin
from apps.runs.models import Run
from apps.usage.authority import refuse_peer
from apps.usage.models import Bucket, Import, Record, Source
from apps.usage.records import uploads
from apps.usage.records.stored_versions import lock_source
from apps.usage.selectors import get_source
from apps.usage.sources.services import set_archived

Kind = Literal["policy", "source"]
Action = Literal["remove", "archive", "restore"]

# Counted separately, or removed with their policy or source. Rows of all other models that refer to it are user data
# and prevent removal, unless their model says `goes_with_owner`: they are computed, or describe its owner alone.
_COUNTED = (Record, Bucket, Entry, Revision, ChangeSet, Pin)
_EFFECTS = {
    ("policy", "remove"): [
        gettext_lazy("It is deleted with its settings. It can’t be restored; the audit log keeps that it existed.")
    ],
    ("policy", "archive"): [
        gettext_lazy("It disappears from lists, notices and checks. Nothing is computed, collected or accepted."),
        gettext_lazy("Priority look-ups return 410 (archived)."),
        gettext_lazy("Nothing in it can be changed. Scheduled changes are held."),
        gettext_lazy("Its publications and feeds are not served; its mounts and subscriptions are not fetched."),
        gettext_lazy("Its data is kept. An administrator can restore it."),
    ],
    ("policy", "restore"): [
        gettext_lazy("It is listed, computed and served again; changes that became due meanwhile are published.")
    ],
    ("source", "remove"): [
        gettext_lazy("It is deleted with its settings. It can’t be restored; the audit log keeps that it existed.")
    ],
    ("source", "archive"): [
        gettext_lazy("The next recompute removes its usage from all policies. To keep its usage, pause it instead."),
        gettext_lazy("It disappears from lists, notices and checks. Nothing is computed, collected or accepted."),
        gettext_lazy("Its data is kept. An administrator can restore it."),
    ],
    ("source", "restore"): [
        gettext_lazy("The next recompute includes its usage again, and it is collected or accepts records again.")
    ],
}


@dataclass(frozen=True, slots=True)
class Dependents:
    """Dependent rows: their kind and number."""

    what: str
    n: int


@dataclass(frozen=True, slots=True)
class Removal:
    """The effects of removing, archiving or restoring, shown before it is done."""

    kind: Kind
    slug: str
    name: str
    archived_at: Annotated[datetime | None, "null: it is current"]
    action: Annotated[Action, "`remove` if nothing depends on it; `restore` if it is archived"]
    dependents: Annotated[list[Dependents], "Dependent rows"]
    effects: Annotated[list[str], "Effects of the action"]


def preview_removal(*, kind: Kind, slug: str, actor: Actor) -> Removal:
    """Return the action that is possible, and its effects.

    Raises:
        NotAllowed: the actor isn't an administrator.
        Conflict: it is a peer's feed (`peer_source`).
    """
    row = open_removable(kind, slug, actor)
    dependents = _dependents_of(row)
    action: Action = "restore" if row.archived_at is not None else "archive" if dependents else "remove"
    return Removal(
        kind, slug, row.name, row.archived_at, action, dependents, [str(each) for each in _EFFECTS[kind, action]]
    )


def open_removable(kind: str, slug: str, actor: Actor) -> Policy | Source:
    """Return the policy or source; raise NotAllowed unless the actor is an administrator."""
    if kind == "policy":
        require_admin(actor, slug)
        return get_policy(slug=slug, actor=actor, scope="policies:write", is_past=True)
    source = get_source(slug=slug, actor=actor)
    if not actor.is_admin:
        raise NotAllowed("Usage sources are removed and archived by administrators.")
    refuse_peer(source)
    return source


def remove_policy(*, slug: str, reason: str, at: datetime, actor: Actor) -> None:
    """Remove a policy that never had an entry below its root, and that nothing else refers to.

    Raises:
        Conflict: something depends on it (`in_use`); `fields` list what.
    """
    row, reason = open_removable("policy", slug, actor), require_reason(reason)
    with transaction.atomic():
        policy = lock_policy(row.pk, also_archived=True, to_remove=True)
        _refuse_used(f"policy {slug!r}", _dependents_of(policy))
        _cancel_waiting(policy, at)
        for kind in (Revision, Entry, ChangeSet):
            kind._default_manager.filter(policy=policy).delete()
        policy.delete()
        audit.record(actor=actor, verb="policy.removed", at=at, policy_slug=slug, reason=reason, subject=slug)


def remove_source(*, slug: str, reason: str, at: datetime, actor: Actor) -> None:
    """Remove a source that has neither records nor hourly sums, and that nothing else refers to.

    Raises:
        Conflict: something depends on it (`in_use`), or it is a peer's feed (`peer_source`).
    """
    row, reason = open_removable("source", slug, actor), require_reason(reason)
    with transaction.atomic():
        lock_source(row.pk)  # before its row, as where usage is stored
        source = Source.all_objects.select_for_update().get(pk=row.pk)  # nothing may refer to it any more
        _refuse_used(f"usage source {slug!r}", _dependents_of(source))
        imports = Import.objects.filter(source=source)
        names = list(imports.values_list("stored_path", flat=True))
        imports.delete()
        source.delete()
        details = {"watermark": source.watermark}
        audit.record(actor=actor, verb="source.removed", at=at, reason=reason, subject=slug, details=details)
        transaction.on_commit(partial(_remove_files, names))


def archive_policy(*, slug: str, reason: str, at: datetime, actor: Actor) -> Policy:
    """Archive a policy: stop computing and serving it; its history stays readable. Archiving twice changes nothing."""
    return _switch_policy(slug, at, "policy.archived", reason, at, actor)


def restore_policy(*, slug: str, reason: str, at: datetime, actor: Actor) -> Policy:
    """Restore an archived policy and queue its recompute."""
    return _switch_policy(slug, None, "policy.restored", reason, at, actor)


def _switch_policy(
    slug: str, archived_at: datetime | None, verb: str, reason: str, at: datetime, actor: Actor
) -> Policy:
    row, reason = open_removable("policy", slug, actor), require_reason(reason)
    with transaction.atomic():
        policy = lock_policy(row.pk, also_archived=True)
        if (policy.archived_at is None) == (archived_at is None):
            return policy
        policy.archived_at = archived_at
        policy.save(update_fields=["archived_at"])
        if archived_at is None:
            queue_recompute(policy, at=at)
        else:
            _cancel_waiting(policy, at)
        audit.record(actor=actor, verb=verb, at=at, policy_slug=slug, reason=reason, subject=slug)
    return policy


def archive_source(*, slug: str, reason: str, at: datetime, actor: Actor) -> Source:
    """Archive a source: its usage is ignored, its records and sums are retained. Archiving twice changes nothing.

    Raises:
        Conflict: it is a peer's feed (`peer_source`).
    """
    return _switch_source(slug, at, "source.archived", reason, at, actor)


def restore_source(*, slug: str, reason: str, at: datetime, actor: Actor) -> Source:
    """Restore an archived source: count its usage again, and resume collecting."""
    return _switch_source(slug, None, "source.restored", reason, at, actor)


def _switch_source(
    slug: str, archived_at: datetime | None, verb: str, reason: str, at: datetime, actor: Actor
) -> Source:
    row, reason = open_removable("source", slug, actor), require_reason(reason)
    with transaction.atomic():
        source = set_archived(row.pk, archived_at)
        if source is not None:
            audit.record(actor=actor, verb=verb, at=at, reason=reason, subject=slug)
    return Source.all_objects.get(pk=row.pk)


def _cancel_waiting(policy: Policy, at: datetime) -> None:
    Run.objects.filter(subject=subject_of(policy), state=Run.State.QUEUED).update(
        state=Run.State.CANCELLED, finished_at=at, message="Its policy was removed or archived."
    )


def _dependents_of(row: Policy | Source) -> list[Dependents]:
    own = _of_policy(row) if isinstance(row, Policy) else _of_source(row)
    return [Dependents(what, n) for what, n in (*own, *_referring(row)) if n]


def _remove_files(names: list[str]) -> None:
    for name in names:
        uploads.remove(name)


def _of_policy(policy: Policy) -> Iterator[tuple[str, int]]:
    yield "entries, current and former", Entry.objects.filter(policy=policy).exclude(parent_uid=None).count()
    open_states = (ChangeSet.State.DRAFT, ChangeSet.State.PROPOSED, ChangeSet.State.APPROVED)
    yield "open change sets", ChangeSet.objects.filter(policy=policy, state__in=open_states).count()
    yield "tokens", Token.objects.filter(policy_slug=policy.slug, revoked_at=None).count()
    yield "runs at work", _count_running(subject_of(policy))


def _of_source(source: Source) -> Iterator[tuple[str, int]]:
    for kind, name in ((Record, "records"), (Bucket, "hourly sums")):
        yield name, kind._default_manager.filter(source=source).count()
    unfinished = Q(run__state__in=(Run.State.QUEUED, Run.State.RUNNING))
    yield "unfinished imports", Import.objects.filter(unfinished, source=source).count()
    yield "tokens", Token.objects.filter(source_slug=source.slug, revoked_at=None).count()
    yield "entries of policies", Entry.objects.filter(until=None, scope_sources__contains=[source.slug]).count()
    yield "runs at work", _count_running(f"source:{source.slug}")


def _count_running(subject: str) -> int:
    return Run.objects.filter(subject=subject, state=Run.State.RUNNING).count()


def _referring(row: models.Model) -> Iterator[tuple[str, int]]:
    """Yield the numbers of rows of any model that refer to this one, without computed ones."""
    for relation in row._meta.get_fields(include_hidden=True):
        if not isinstance(relation, models.ForeignObjectRel):
            continue
        kind = relation.related_model
        assert not isinstance(kind, str)  # noqa: S101 - all models are loaded
        if kind in _COUNTED or getattr(kind, "goes_with_owner", False):
            continue
        yield str(kind._meta.verbose_name_plural), kind._base_manager.filter(**{relation.field.name: row}).count()


def _refuse_used(what: str, dependents: list[Dependents]) -> None:
    if dependents:
        listed = ", ".join(each.what for each in dependents)
        raise Conflict(
            f"The {what} can't be removed, because these depend on it: {listed}. Remove them first, or archive it.",
            code="in_use",
            fields=[FieldProblem(each.what, f"refer to it: {each.n:,}") for each in dependents],
        )
