"""Health checks (/healthz, /readyz) and Prometheus metrics (/metrics), answered before sessions."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Max, Q
from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from apps.accounts.actor import TokenBounds
from apps.accounts.token_cache import tokens
from apps.core import clock
from apps.core.counts import counted
from apps.core.disk_space import full_disks
from apps.core.errors import DomainError, NotAllowed, Unauthenticated
from apps.core.plugins import plugins
from apps.core.postgresql.replica import replica_refusal
from apps.pages.monitoring.exposition import exposition
from apps.policies.models import Policy
from apps.policies.recompute_runs import failed_recompute
from apps.priorities.serving import store
from apps.runs.presence import find_differences
from apps.runs.workers import beat_silent_since, silent_workers
from apps.usage.models import Source
from apps.usage.timeliness import Timeliness, is_behind, last_contact_at, timeliness
from apps.web.rest import errors
from apps.web.rest.authentication import PRIORITIES_READ, bearer_text, require_scope
from apps.web.rest.rendering import dumps
from apps.web.rest.requests import client_address, has_uncounted_proxy

_SNAPSHOT_OLD = timedelta(minutes=15)


@login_not_required
def healthz(request: HttpRequest) -> HttpResponse:
    """200 if the process can answer."""
    return _json({"status": "ok"})


@login_not_required
def readyz(request: HttpRequest) -> HttpResponse:
    """503 if the site can't work at all: no database, or pending migrations. Lesser problems are listed as degraded."""
    try:
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
        pending = [f"{migration.app_label}.{migration.name}" for migration, _ in plan]
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        if pending:
            return _json({"status": "unavailable", "reasons": [f"migration pending: {name}" for name in pending]}, 503)
        degraded = list(_degraded(clock.now()))
    except (DatabaseError, InterfaceError):
        connection.close()
        full = [f"{disk['subject']} {disk['message']}" for disk in _full_disks()]
        return _json({"status": "unavailable", "reasons": ["the database is not available", *full]}, 503)
    return _json({"status": "degraded" if degraded else "ok", "degraded": degraded})


@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """Metrics for Prometheus: for addresses in FAIRSHARE_METRICS_ADDRESSES, or with a token for priorities:read."""
    try:
        text = bearer_text(request)
        if text is not None:
            _require_whole_site(tokens.verify(text, at=clock.now())[1])
        elif not _is_allowed(request):
            raise Unauthenticated(_address_refusal(request))
    except DomainError as error:
        return errors.domain_problem(request, error)
    return HttpResponse(exposition(), content_type="text/plain; version=0.0.4; charset=utf-8")


def _address_refusal(request: HttpRequest) -> str:
    if has_uncounted_proxy(request):
        return "A proxy forwarded the request, and FAIRSHARE_PROXY_COUNT is 0: send a token for priorities:read."
    return "Send a token for priorities:read, or have your address added to FAIRSHARE_METRICS_ADDRESSES."


def _require_whole_site(bounds: TokenBounds) -> None:
    """Reject tokens that are limited to a policy, entry or source: metrics are of the whole site."""
    require_scope(bounds, frozenset({PRIORITIES_READ}))
    if bounds.is_bound:
        message = "Metrics cover the whole site, but the token is limited: make one without policy, subtree and source."
        raise NotAllowed(message, code="token_bound")


def _json(data: dict[str, Any], status: int = 200) -> HttpResponse:
    response = HttpResponse(dumps(data), status=status, content_type="application/json")
    if status == 503:
        response["Retry-After"] = str(errors.RETRY_AFTER_S)
    return response


def _is_allowed(request: HttpRequest) -> bool:
    """Whether the client address is on the list. False behind a proxy that FAIRSHARE_PROXY_COUNT does not count."""
    if has_uncounted_proxy(request):
        return False
    try:
        address = ipaddress.ip_address(client_address(request) or "")
        return any(address in ipaddress.ip_network(net, strict=False) for net in settings.FAIRSHARE_METRICS_ADDRESSES)
    except ValueError:
        return False


def _degraded(at: datetime) -> Iterator[Mapping[str, str]]:
    yield from _stale_policies(at)
    yield from _damaged_snapshots()
    yield from _late_sources(at)
    yield from _failed_recomputes()
    yield from _silent_workers(at)
    for plugin in plugins():
        yield from plugin.degradations()
    yield from _full_disks()
    yield from _differing_processes()
    if refusal := replica_refusal():
        yield {"code": "replica_unused", "subject": "replica", "message": refusal}


def _stale_policies(at: datetime) -> Iterator[dict[str, str]]:
    newest = Max("snapshots__computed_at", filter=Q(snapshots__is_live=True))
    longest = max(_SNAPSHOT_OLD, timedelta(seconds=2 * settings.FAIRSHARE_TICK_S))
    policies = Policy.objects.filter(head_number__gt=0).annotate(newest=newest).order_by("slug")
    for slug, computed_at in policies.values_list("slug", "newest"):
        if computed_at is None:
            yield {"code": "no_snapshot", "subject": slug, "message": "has no snapshot yet"}
        elif at - computed_at > longest:
            yield {"code": "old_snapshot", "subject": slug, "message": f"was last computed at {computed_at:%FT%TZ}"}


def _damaged_snapshots() -> Iterator[dict[str, str]]:
    """Snapshots that this process could not read; each process loads them itself."""
    state = store.state()
    for slug, newest_id in sorted(state.damaged.items()):
        older = state.snapshots.get(slug)
        instead = f"snapshot {older.snapshot_id} is served" if older else "no older one can be read"
        message = f"snapshot {newest_id} is damaged and {instead}"
        yield {"code": "damaged_snapshot", "subject": slug, "message": message}


def _late_sources(at: datetime) -> Iterator[dict[str, str]]:
    for source in Source.objects.order_by("slug"):
        state = timeliness(source, at)
        if is_behind(state):
            contact_at = last_contact_at(source)
            message = f"its last contact was at {contact_at:%FT%TZ}" if contact_at else "it has had no contact yet"
            code = "source_never_collected" if state is Timeliness.NEVER_COLLECTED else "late_source"
            yield {"code": code, "subject": source.slug, "message": message}


def _failed_recomputes() -> Iterator[dict[str, str]]:
    """Failed recomputes, without the error, because /readyz is open to all; the notice has the error."""
    for policy in Policy.objects.filter(head_number__gt=0).order_by("slug"):
        run = failed_recompute(policy)
        if run is not None and run.finished_at is not None:
            message = f"its recompute failed at {run.finished_at:%FT%TZ}: run {run.pk}"
            yield {"code": "recompute_failed", "subject": policy.slug, "message": message}


def _silent_workers(at: datetime) -> Iterator[dict[str, str]]:
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


def _differing_processes() -> Iterator[dict[str, str]]:
    """Without names of hosts, because /readyz is open to all; `check --database default` has them."""
    for role, what in sorted({(each.role, each.what) for each in find_differences()}):
        yield {"code": "processes_differ", "subject": role, "message": f"has another {what} than the process asked"}


def _full_disks() -> Iterator[dict[str, str]]:
    for disk in full_disks():
        yield {"code": "full_disk", "subject": disk.path, "message": f"is on a disk with {disk.free_mb} MB left"}


_VIEWS: dict[str, Callable[[HttpRequest], HttpResponse]] = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}


class HealthMiddleware(MiddlewareMixin):
    """Answers probes before sessions and authentication."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        view = _VIEWS.get(request.path_info)
        if view is None:
            return None
        if request.method not in ("GET", "HEAD"):
            return errors.problem(
                request, 405, "method_not_allowed", "Only GET is allowed.", headers={"Allow": "GET, HEAD"}
            )
        return view(request)
