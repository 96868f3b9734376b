"""What limits the site now, each with a code: `/readyz` lists it, and `manage.py doctor` adds remedies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Max, Q

from apps.core.counts import counted
from apps.core.disk_space import full_disks
from apps.core.plugins import plugins
from apps.core.postgresql.replica import replica_refusal
from apps.policies.models import Policy
from apps.policies.recompute_runs import failed_recompute
from apps.priorities.serving import store
from apps.runs.backup_state import backup_degradations
from apps.runs.presence import find_differences
from apps.runs.workers import beat_silent_since, silent_workers
from apps.usage.models import Source
from apps.usage.timeliness import Timeliness, is_behind, last_contact_at, timeliness

_SNAPSHOT_OLD = timedelta(minutes=15)


def degradations(at: datetime) -> Iterator[Mapping[str, str]]:
    """What limits the site now, as `/readyz` lists it: code, subject and message of each."""
    yield from stale_policies(at)
    yield from damaged_snapshots()
    yield from late_sources(at)
    yield from failed_recomputes()
    yield from silent_workers_and_beat(at)
    for plugin in plugins():
        yield from plugin.degradations()
    yield from disks_without_room()
    yield from differing_processes()
    yield from backup_degradations(at)
    if refusal := replica_refusal():
        yield {"code": "replica_unused", "subject": "replica", "message": refusal}


def stale_policies(at: datetime) -> Iterator[dict[str, str]]:
    newest = Max("snapshots__computed_at", filter=Q(snapshots__is_live=True))
    longest = max(_SNAPSHOT_OLD, timedelta(seconds=2 * settings.FAIRSHARE_TICK_S))
    policies = Policy.objects.filter(head_number__gt=0).annotate(newest=newest).order_by("slug")
    for slug, computed_at in policies.values_list("slug", "newest"):
        if computed_at is None:
            yield {"code": "no_snapshot", "subject": slug, "message": "has no snapshot yet"}
        elif at - computed_at > longest:
            yield {"code": "old_snapshot", "subject": slug, "message": f"was last computed at {computed_at:%FT%TZ}"}


def damaged_snapshots() -> Iterator[dict[str, str]]:
    """Snapshots that this process could not read; each process loads them itself."""
    state = store.state()
    for slug, newest_id in sorted(state.damaged.items()):
        older = state.snapshots.get(slug)
        instead = f"snapshot {older.snapshot_id} is served" if older else "no older one can be read"
        message = f"snapshot {newest_id} is damaged and {instead}"
        yield {"code": "damaged_snapshot", "subject": slug, "message": message}


def late_sources(at: datetime) -> Iterator[dict[str, str]]:
    for source in Source.objects.order_by("slug"):
        state = timeliness(source, at)
        if is_behind(state):
            contact_at = last_contact_at(source)
            message = f"its last contact was at {contact_at:%FT%TZ}" if contact_at else "it has had no contact yet"
            code = "source_never_collected" if state is Timeliness.NEVER_COLLECTED else "late_source"
            yield {"code": code, "subject": source.slug, "message": message}


def failed_recomputes() -> Iterator[dict[str, str]]:
    """Failed recomputes, without the error, because /readyz is open to all; the notice has the error."""
    for policy in Policy.objects.filter(head_number__gt=0).order_by("slug"):
        run = failed_recompute(policy)
        if run is not None and run.finished_at is not None:
            message = f"its recompute failed at {run.finished_at:%FT%TZ}: run {run.pk}"
            yield {"code": "recompute_failed", "subject": policy.slug, "message": message}


def silent_workers_and_beat(at: datetime) -> Iterator[dict[str, str]]:
    workers = silent_workers(at)
    if workers is not None:
        last = (
            f"their last contact was at {workers.last_contact_at:%FT%TZ}"
            if workers.last_contact_at
            else "none has worked"
        )
        message = (
            f"{last}; {counted(workers.n_waiting, 'run waits', 'runs wait')}, "
            f"{counted(workers.n_lost, 'has lost its worker', 'have lost their worker')}, "
            f"{counted(workers.n_stalled, 'makes no progress', 'make no progress')}"
        )
        yield {"code": "workers_silent", "subject": "workers", "message": message}
    rang_at = beat_silent_since(at)
    if rang_at is not None:
        yield {"code": "beat_silent", "subject": "beat", "message": f"has started no task since {rang_at:%FT%TZ}"}


def differing_processes() -> Iterator[dict[str, str]]:
    """Without names of hosts, because /readyz is open to all; `check --database default` has them."""
    for role, what in sorted({(each.role, each.what) for each in find_differences()}):
        yield {"code": "processes_differ", "subject": role, "message": f"has another {what} than the process asked"}


def disks_without_room() -> Iterator[dict[str, str]]:
    for disk in full_disks():
        yield {"code": "full_disk", "subject": disk.path, "message": f"is on a disk with {disk.free_mb} MB left"}
