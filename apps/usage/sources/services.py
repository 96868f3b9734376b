"""Set up, change, pause, resume and collect usage sources, for administrators."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.entry_accounts import refuse_reserved
from apps.core.errors import Conflict, DomainError, FieldProblem, Invalid, NotAllowed, NotFound, Stale
from apps.runs.models import Run
from apps.usage.authority import require_create, require_open, require_write
from apps.usage.changed_hours import note_all_changed
from apps.usage.models import Overlap, SealedHour, Source
from apps.usage.parsers.base import MOST_JOB_S
from apps.usage.parsers.slurm_billing import BillingWeights
from apps.usage.records.overlaps import raise_watermarks
from apps.usage.records.stored_versions import lock_source
from apps.usage.selectors import get_source
from apps.usage.services import NewSource, make_source, zone_of
from apps.usage.sources.schedule import KIND, enqueue_collection, subject_of
from apps.usage.sources.source_settings import validate_terms

SETTINGS = (
    *("name", "namespace", "site", "cluster", "time_zone", "origin", "expected_every_s", "names_people"),
    *("kind", "collecting", "collect_every_s", "skew_tolerance_s", "keep_records_days", "longest_run_s"),
    "billing_weights",
)
LEAST_INTERVAL_S, MOST_INTERVAL_S = 30, 366 * 86400
COLLECT_EVERY_S = 300  # default when a source becomes collected
MOST_SKEW_S = 86400
BY_HAND = tuple(kind for kind in Source.Kind.values if kind != Source.Kind.PEER)  # kinds that can be set up by hand
NEW = "new"  # a path of the pages, so no source can have this slug
MOST_RETENTION_DAYS = 36_600
_TEXTS = {"name": 128, "namespace": 128, "site": 128, "cluster": 128, "time_zone": 64, "origin": 128}
_SECONDS = {
    "expected_every_s": (60, MOST_INTERVAL_S),
    "collect_every_s": (LEAST_INTERVAL_S, MOST_INTERVAL_S),
    "keep_records_days": (1, MOST_RETENTION_DAYS),
    "longest_run_s": (60, MOST_JOB_S),
}
_LOCATION = ("folder", "files", "command", "address")  # if one of these changes, the cursor is discarded


def newest_collection(*, source: Source, actor: Actor) -> Run | None:
    """The newest collection of a source; visible to all who can see the source."""
    get_source(slug=source.slug, actor=actor)
    return Run.objects.filter(kind=KIND, subject=subject_of(source)).order_by("-id").first()


def may_set_up(actor: Actor) -> bool:
    return actor.is_admin


def set_up_source(*, slug: str, new_settings: Mapping[str, Any], at: datetime, actor: Actor) -> Source:
    """Create a source with all its settings; a collected one is due immediately.

    Raises:
        Invalid: invalid settings, with the problem of each field.
        Conflict: a source with this slug exists.
    """
    kind = new_settings.get("kind", Source.Kind.PUSH)
    require_create(actor, slug)
    if set(new_settings) - {"name", "time_zone"}:
        require_set_up(actor, slug)
    if slug == NEW:
        raise Invalid("This short name is used by a page.", fields=[FieldProblem("slug", "Choose another name.")])
    made = {name: new_settings[name] for name in ("namespace", "time_zone", "names_people") if name in new_settings}
    with transaction.atomic():
        source = make_source(NewSource(slug=slug, name=new_settings.get("name") or slug, **made), at=at, actor=actor)
        _set(source, {**new_settings, "kind": kind})
        source.collect_due_at = _first_due(source, at)
        source.save()
    return source


def change_source(*, slug: str, tag: str, new_settings: Mapping[str, Any], at: datetime, actor: Actor) -> Source:
    """Change the given settings. `tag`: that of the source as the caller loaded it.

    Raises:
        Stale: the source changed since.
        Conflict: fields that identify stored records can't change.
    """
    require_set_up(actor, slug)
    with transaction.atomic():
        for source_id in Source.all_objects.filter(slug=slug).values_list("pk", flat=True):
            lock_source(source_id)  # before its row, as where usage is stored
        source = _locked(slug)
        require_open(source)
        if tag != tag_of(source):
            raise Stale("Another person changed this source: reload it and try again.")
        before, kept = settings_of(source), source.cursor
        _refuse_renaming(source, new_settings)
        _set(source, new_settings)
        after = settings_of(source)
        if before["kind"] != after["kind"] or _location(before) != _location(after):
            source.cursor, source.collect_error = {}, ""
        changed = sorted(name for name in SETTINGS if before[name] != after[name])
        if not changed:
            return source
        if {"kind", "collecting", "collect_every_s"} & set(changed):
            source.collect_due_at = _first_due(source, at)
        if before["origin"] != after["origin"]:
            note_all_changed([source.pk])
        if {"origin", "longest_run_s"} & set(changed):
            source.watermark += 1  # where its usage counts has changed, or how long what runs does
        source.save()
        details = {
            "before": {name: before[name] for name in changed},
            "after": {name: after[name] for name in changed},
            "begins_anew": bool(kept) and not source.cursor,
        }
        audit.record(actor=actor, verb="source.changed", at=at, subject=slug, details=details)
    return source


def pause_source(*, slug: str, at: datetime, actor: Actor) -> Source:
    """Stop collecting until the source is resumed; pushed records are still accepted. Safe to repeat."""
    return _switch(slug, True, at, actor)


def resume_source(*, slug: str, at: datetime, actor: Actor) -> Source:
    """Resume collecting, immediately and from the cursor."""
    return _switch(slug, False, at, actor)


def collect_now(*, slug: str, at: datetime, actor: Actor) -> Run:
    """Enqueue a collection, or return the one that is waiting.

    Raises:
        Conflict: the source is paused, or of a kind that is not collected.
    """
    require_write(actor, slug)
    with transaction.atomic():
        source = _locked(slug)
        require_open(source)
        if not source.is_collected:
            raise Conflict("This source isn't collected: its records are sent here.", code="not_collected")
        if source.is_paused:
            raise Conflict("This source is paused: resume it first.", code="paused")
        run = enqueue_collection(source, at=at, owner=actor.user)
        audit.record(actor=actor, verb="source.collect_asked", at=at, subject=slug, details={"run": run.pk})
    return run


def tag_of(source: Source) -> str:
    """Version tag of the settings, for concurrent changes; new records don't change it."""
    text = json.dumps([settings_of(source), source.is_paused], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def settings_of(source: Source) -> dict[str, Any]:
    return {name: getattr(source, name) for name in SETTINGS}


def _set(source: Source, new_settings: Mapping[str, Any]) -> None:
    """Validate all settings, report all problems, and set them on the unsaved row."""
    problems: list[FieldProblem] = []
    for name in sorted(set(new_settings) - set(SETTINGS)):
        problems.append(FieldProblem(name[:60], f"A source has {', '.join(SETTINGS)}."))
    for name, value in new_settings.items():
        if name in SETTINGS and name != "collecting":
            problems += _problem(name, value)
    if not problems:
        for name, value in new_settings.items():
            if name != "collecting":
                setattr(source, name, value.strip() if isinstance(value, str) else value)
        problems += _terms(source, new_settings)
    if problems:
        raise Invalid("The settings of the source are invalid.", code="bad_source", fields=problems)


def _terms(source: Source, new_settings: Mapping[str, Any]) -> list[FieldProblem]:
    if source.kind == Source.Kind.PUSH:
        if new_settings.get("collect_every_s"):
            return [FieldProblem("collect_every_s", "A push source is not collected.")]
        source.collect_every_s = None
    elif "kind" in new_settings and "collect_every_s" not in new_settings and not source.collect_every_s:
        source.collect_every_s = COLLECT_EVERY_S
    terms = new_settings.get("collecting", source.collecting if "kind" not in new_settings else {})
    if not isinstance(terms, Mapping):
        return [FieldProblem("collecting", "Write an object with the settings of this kind of source.")]
    try:
        source.collecting = validate_terms(source.kind, terms, time_zone=source.time_zone)
    except DomainError as refusal:
        return list(refusal.fields)
    return []


def _problem(name: str, value: Any) -> list[FieldProblem]:
    message = ""
    if name in _TEXTS:
        least = 1 if name in ("name", "namespace") else 0
        if not isinstance(value, str) or not least <= len(value.strip()) <= _TEXTS[name]:
            message = f"Write {least} to {_TEXTS[name]} characters."
        elif value and not value.isprintable():
            message = "Write printable characters only."
        elif name == "time_zone":
            message = _refusal(zone_of, value)
        elif name == "namespace":
            message = _refusal(refuse_reserved, value)
    elif name in _SECONDS:
        least, most = _SECONDS[name]
        if value is not None and (type(value) is not int or not least <= value <= most):
            unit = "days" if name.endswith("days") else "seconds"
            message = f"A whole number of {unit} from {least} to {most}, or nothing."
    elif name == "skew_tolerance_s":
        if type(value) is not int or not 0 <= value <= MOST_SKEW_S:
            message = f"A whole number of seconds from 0 to {MOST_SKEW_S}."
    elif name == "kind":
        if value not in BY_HAND:
            message = f"There is {', '.join(BY_HAND)}."
    elif name == "billing_weights":
        message = _billing_problem(value)
    elif name == "names_people" and not isinstance(value, bool):
        message = "Write true or false."
    return [FieldProblem(name, message)] if message else []


def _billing_problem(value: Any) -> str:
    try:
        BillingWeights.from_json(value)
    except ValueError as error:
        return f"Write the weights of partitions: {error}."
    return ""


def _refusal(check: Callable[[str], object], value: str) -> str:
    try:
        check(value.strip())
    except Invalid as refusal:
        return refusal.message
    return ""


def _refuse_renaming(source: Source, new_settings: Mapping[str, Any]) -> None:
    """Reject new names for accounts and record keys: records under other names would be counted twice."""
    if not source.n_records and not SealedHour.objects.filter(source=source).exists():
        return
    for name in ("namespace", "cluster"):
        if name in new_settings and new_settings[name] != getattr(source, name):
            message = "It can't change once there are records: create another source."
            raise Conflict(f"{name}: {message}", code="has_records", fields=[FieldProblem(name, message)])


def _location(settings: Mapping[str, Any]) -> list[Any]:
    return [settings["collecting"].get(name) for name in _LOCATION]


def _first_due(source: Source, at: datetime) -> datetime | None:
    return at if source.is_collected and source.collect_every_s else None


def _switch(slug: str, is_paused: bool, at: datetime, actor: Actor) -> Source:
    require_set_up(actor, slug)
    with transaction.atomic():
        source = _locked(slug)
        require_open(source)
        if source.is_paused != is_paused:
            source.is_paused = is_paused
            source.collect_due_at = None if is_paused else _first_due(source, at)
            source.save(update_fields=["is_paused", "collect_due_at"])
            verb = "source.paused" if is_paused else "source.resumed"
            audit.record(actor=actor, verb=verb, at=at, subject=slug, details={})
    return source


def set_archived(source_id: int, archived_at: datetime | None) -> Source | None:
    """Archive a source, or with None restore it, in the caller's transaction. Returns None if nothing changes.

    Usage of an archived source is not counted; hours of other sources that were held because of it are.
    """
    lock_source(source_id)  # waits for a batch that is being stored
    source = Source.all_objects.select_for_update(no_key=True).get(pk=source_id)
    if (source.archived_at is None) == (archived_at is None):
        return None
    source.archived_at = archived_at
    source.save(update_fields=["archived_at"])
    changed = {source.pk, *Overlap.objects.filter(kept=source).values_list("held_id", flat=True)}
    note_all_changed(changed)
    raise_watermarks(changed)
    return source


def _locked(slug: str) -> Source:
    source = Source.all_objects.select_for_update(no_key=True).filter(slug=slug).first()
    if source is None:
        raise NotFound(f"There is no usage source {slug[:64]!r}.")
    return source


def require_set_up(actor: Actor, slug: str) -> None:
    """Require an administrator: settings name programs, folders and addresses of this machine, so a token is not
    enough.
    """
    if actor.is_admin:
        return
    if not actor.reaches_source(slug):
        raise NotFound(f"There is no usage source {slug[:64]!r}.")
    raise NotAllowed("Only administrators may change settings of usage sources.")
