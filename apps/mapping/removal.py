"""Remove a policy or a usage source that was made by mistake, as long as nothing rests on it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial

from django.db import models, transaction
from django.db.models import Q

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.core.errors import Conflict, FieldProblem, NotAllowed
from apps.policies.changesets.change_sets import require_reason
from apps.policies.models import ChangeSet, Entry, Policy, Revision
from apps.policies.publishing.revisions import lock_policy
from apps.policies.selectors import get_policy
from apps.policies.services import require_admin
from apps.runs.models import Run
from apps.usage.authority import refuse_peer
from apps.usage.models import Bucket, Import, Record, Source
from apps.usage.records import uploads
from apps.usage.selectors import get_source

# What the service itself computes, or keeps about the row alone, and makes again where it is needed. Whatever else
# refers to a policy or a source was made by somebody, also where a later release adds it.
_COMPUTED = {
    *("policies.entry", "policies.revision", "policies.changeset", "policies.pin"),  # counted below, or nobody's work
    *("priorities.snapshot", "priorities.unmappedusage", "notices.notice", "notices.statement"),
    *("mapping.mapping", "mapping.mappingversion"),
    *("usage.import", "usage.sourceday", "usage.siteday", "usage.overlap", "usage.changedhour", "usage.repetition"),
    *("onboarding.beginning",),
}


def remove_policy(*, slug: str, reason: str, at: datetime, actor: Actor) -> None:
    """Remove a policy that has never had an entry below its root, and to which nothing else refers.

    Raises:
        Conflict: something rests on it (`in_use`); `fields` name what.
    """
    require_admin(actor, slug)
    policy, said = get_policy(slug=slug, actor=actor, scope="policies:write"), require_reason(reason)
    with transaction.atomic():
        policy = lock_policy(policy.pk)
        _refuse_used(f"policy {slug!r}", [*_of_policy(policy), *_referring(policy)])
        Run.objects.filter(subject=f"policy:{slug}", state=Run.State.QUEUED).update(
            state=Run.State.CANCELLED, finished_at=at, message="Its policy was removed."
        )
        for kind in (Revision, Entry, ChangeSet):
            kind._default_manager.filter(policy=policy).delete()
        policy.delete()
        audit.record(actor=actor, verb="policy.removed", at=at, policy_slug=slug, reason=said, subject=slug)


def remove_source(*, slug: str, reason: str, at: datetime, actor: Actor) -> None:
    """Remove a source that has neither records nor sums, and to which nothing else refers.

    Raises:
        Conflict: something rests on it (`in_use`), or it is a peer's feed (`peer_source`).
    """
    get_source(slug=slug, actor=actor)
    if not actor.is_admin:
        raise NotAllowed("Usage sources are removed by administrators.")
    said = require_reason(reason)
    with transaction.atomic():
        source = Source.objects.select_for_update().get(slug=slug)
        refuse_peer(source)
        _refuse_used(f"usage source {slug!r}", [*_of_source(source), *_referring(source)])
        imports = Import.objects.filter(source=source)
        names = list(imports.values_list("stored_path", flat=True))
        imports.delete()
        source.delete()
        audit.record(actor=actor, verb="source.removed", at=at, reason=said, subject=slug)
        transaction.on_commit(partial(_remove_files, names))


def _remove_files(names: list[str]) -> None:
    for name in names:
        uploads.remove(name)


def _of_policy(policy: Policy) -> Iterator[tuple[str, int]]:
    yield "entries, now or before", Entry.objects.filter(policy=policy).exclude(parent_uid=None).count()
    open_states = (ChangeSet.State.DRAFT, ChangeSet.State.PROPOSED, ChangeSet.State.APPROVED)
    yield "open change sets", ChangeSet.objects.filter(policy=policy, state__in=open_states).count()
    yield "tokens", Token.objects.filter(policy_slug=policy.slug, revoked_at=None).count()
    yield "runs at work", _at_work(f"policy:{policy.slug}")


def _of_source(source: Source) -> Iterator[tuple[str, int]]:
    for kind, name in ((Record, "records"), (Bucket, "hourly sums")):
        yield name, int(kind._default_manager.filter(source=source).exists())
    unfinished = Q(run__state__in=(Run.State.QUEUED, Run.State.RUNNING))
    yield "unfinished imports", Import.objects.filter(unfinished, source=source).count()
    yield "tokens", Token.objects.filter(source_slug=source.slug, revoked_at=None).count()
    yield "entries of policies", Entry.objects.filter(until=None, scope_sources__contains=[source.slug]).count()
    yield "runs at work", _at_work(f"source:{source.slug}")


def _at_work(subject: str) -> int:
    return Run.objects.filter(subject=subject, state=Run.State.RUNNING).count()


def _referring(row: models.Model) -> Iterator[tuple[str, int]]:
    """Rows of any room that refer to this one, but for what is computed."""
    for relation in row._meta.get_fields(include_hidden=True):
        if not isinstance(relation, models.ForeignObjectRel):
            continue
        kind = relation.related_model
        assert not isinstance(kind, str)  # noqa: S101 - all models are loaded
        if kind._meta.label_lower in _COMPUTED or kind._meta.app_label == "analytics" or kind in (Record, Bucket):
            continue
        yield str(kind._meta.verbose_name_plural), kind._base_manager.filter(**{relation.field.name: row}).count()


def _refuse_used(what: str, found: list[tuple[str, int]]) -> None:
    used = [(name, n) for name, n in found if n]
    if used:
        listed = ", ".join(name for name, _ in used)
        raise Conflict(
            f"The {what} isn't removed, because something rests on it: {listed}. Remove these first.",
            code="in_use",
            fields=[FieldProblem(name, f"refer to it: {n:,}") for name, n in used],
        )
