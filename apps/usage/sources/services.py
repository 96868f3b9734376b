"""Usage sources as administrators keep them: set up, changed, paused, resumed, collected now."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from apps.accounts import audit_log as audit
from apps.accounts.account_ids import refuse_reserved
from apps.accounts.actor import Actor
from apps.core.errors import Conflict, DomainError, FieldProblem, Invalid, NotAllowed, NotFound, Stale
from apps.runs.models import Run
from apps.usage.authority import require_create, require_open, require_write
from apps.usage.changed_hours import note_all_changed
from apps.usage.models import Overlap, SealedHour, Source
from apps.usage.records.overlaps import bump
from apps.usage.records.versions import lock_source
from apps.usage.selectors import get_source
from apps.usage.services import make_source, zone_of
from apps.usage.sources.collection import KIND, ask_for, subject_of
from apps.usage.sources.source_settings import checked_terms


def newest_collection(*, source: Source, actor: Actor) -> Run | None:
    """Everybody who may see a source may see whether its collection works."""
    get_source(slug=source.slug, actor=actor)
    return Run.objects.filter(kind=KIND, subject=subject_of(source)).order_by("-id").first()


SETTINGS = (
    *("name", "namespace", "site", "cluster", "time_zone", "origin", "expected_every_s", "names_people"),
    *("kind", "collecting", "collect_every_s", "skew_tolerance_s", "keep_records_days"),
)
LEAST_INTERVAL_S, MOST_INTERVAL_S = 30, 366 * 86400
COLLECT_EVERY_S = 300  # unless said otherwise: None is by hand
MOST_SKEW_S = 86400
BY_HAND = tuple(kind for kind in Source.Kind.values if kind != Source.Kind.PEER)  # the kinds that a person can set up
NEW = "new"  # where a source is made on pages
MOST_DAYS = 36_600
_TEXTS = {"name": 128, "namespace": 128, "site": 128, "cluster": 128, "time_zone": 64, "origin": 128}
_SECONDS = {
    "expected_every_s": (60, MOST_INTERVAL_S),
    "collect_every_s": (LEAST_INTERVAL_S, MOST_INTERVAL_S),
    "keep_records_days": (1, MOST_DAYS),
}
_PLACE_OF_CURSOR = ("folder", "files", "command", "address")  # another one of these, and the cursor means nothing


def may_set_up(actor: Actor) -> bool:
    return actor.is_admin


def set_up_source(*, slug: str, given: Mapping[str, Any], at: datetime, actor: Actor) -> Source:
    """A new source with all its settings; one that is collected is due at once.

    Raises:
        Invalid: what is wrong, each at its place.
        Conflict: there is one of this name.
    """
    kind = given.get("kind", Source.Kind.PUSH)
    require_create(actor, slug)
    if set(given) - {"name", "time_zone"}:
        _require_admin(actor, slug)
    if slug == NEW:
        raise Invalid("This short name is used by a page.", fields=[FieldProblem("slug", "Choose another name.")])
    made = {name: given[name] for name in ("namespace", "time_zone", "names_people") if name in given}
    with transaction.atomic():
        source = make_source(slug=slug, name=given.get("name") or slug, **made, at=at, actor=actor)
        _set(source, {**given, "kind": kind})
        source.collect_due_at = _first_due(source, at)
        source.save()
    return source


def change_source(*, slug: str, tag: str, given: Mapping[str, Any], at: datetime, actor: Actor) -> Source:
    """Replace the given settings. `tag` is that of the source the caller saw.

    Raises:
        Stale: it changed since.
        Conflict: names that identify stored records can't change.
    """
    _require_admin(actor, slug)
    with transaction.atomic():
        source = _locked(slug)
        require_open(source)
        if tag != tag_of(source):
            raise Stale("Another person changed this source: check it again.")
        before, kept = settings_of(source), source.cursor
        _refuse_renaming(source, given)
        _set(source, given)
        after = settings_of(source)
        if before["kind"] != after["kind"] or _place(before) != _place(after):
            source.cursor, source.collect_error = {}, ""
        changed = sorted(name for name in SETTINGS if before[name] != after[name])
        if not changed:
            return source
        if {"kind", "collecting", "collect_every_s"} & set(changed):
            source.collect_due_at = _first_due(source, at)
        if before["origin"] != after["origin"]:
            note_all_changed([source.pk])
            source.watermark += 1  # whose usage counts where has changed: priorities follow
        source.save()
        details = {
            "before": {name: before[name] for name in changed},
            "after": {name: after[name] for name in changed},
            "begins_anew": bool(kept) and not source.cursor,
        }
        audit.record(actor=actor, verb="source.changed", at=at, subject=slug, details=details)
    return source


def pause_source(*, slug: str, at: datetime, actor: Actor) -> Source:
    """Nothing is collected until it is resumed; pushed records are still accepted. Safe to repeat."""
    return _switch(slug, True, at, actor)


def resume_source(*, slug: str, at: datetime, actor: Actor) -> Source:
    """It is due at once, from where it was left."""
    return _switch(slug, False, at, actor)


def collect_now(*, slug: str, at: datetime, actor: Actor) -> Run:
    """Ask for a collection now; while one waits, that is the answer.

    Raises:
        Conflict: it is paused, or nothing is collected of this kind.
    """
    require_write(actor, slug)
    with transaction.atomic():
        source = _locked(slug)
        require_open(source)
        if not source.is_collected:
            raise Conflict("This source isn't collected: its records are sent here.", code="not_collected")
        if source.is_paused:
            raise Conflict("This source is paused: resume it first.", code="paused")
        run = ask_for(source, at=at, owner=actor.user)
        audit.record(actor=actor, verb="source.collect_asked", at=at, subject=slug, details={"run": run.pk})
    return run


def tag_of(source: Source) -> str:
    """Of the settings alone: new records make no form stale."""
    text = json.dumps([settings_of(source), source.is_paused], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def settings_of(source: Source) -> dict[str, Any]:
    return {name: getattr(source, name) for name in SETTINGS}


def _set(source: Source, given: Mapping[str, Any]) -> None:
    """Check everything, report all problems, and set it on the row in memory."""
    problems: list[FieldProblem] = []
    for name in sorted(set(given) - set(SETTINGS)):
        problems.append(FieldProblem(name[:60], f"A source has {', '.join(SETTINGS)}."))
    for name, value in given.items():
        if name in SETTINGS and name != "collecting":
            problems += _problem(name, value)
    if not problems:
        for name, value in given.items():
            if name != "collecting":
                setattr(source, name, value.strip() if isinstance(value, str) else value)
        problems += _terms(source, given)
    if problems:
        raise Invalid("The source can't be kept like this.", code="bad_source", fields=problems)


def _terms(source: Source, given: Mapping[str, Any]) -> list[FieldProblem]:
    if source.kind == Source.Kind.PUSH:
        if given.get("collect_every_s"):
            return [FieldProblem("collect_every_s", "Nothing is collected of a source that sends its records.")]
        source.collect_every_s = None
    elif "kind" in given and "collect_every_s" not in given and not source.collect_every_s:
        source.collect_every_s = COLLECT_EVERY_S
    terms = given.get("collecting", source.collecting if "kind" not in given else {})
    if not isinstance(terms, Mapping):
        return [FieldProblem("collecting", "Write an object with the settings of this kind of source.")]
    try:
        source.collecting = checked_terms(source.kind, terms, time_zone=source.time_zone)
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
    elif name == "names_people" and not isinstance(value, bool):
        message = "Write true or false."
    return [FieldProblem(name, message)] if message else []


def _refusal(check: Callable[[str], object], value: str) -> str:
    try:
        check(value.strip())
    except Invalid as refusal:
        return refusal.message
    return ""


def _refuse_renaming(source: Source, given: Mapping[str, Any]) -> None:
    """Accounts and the keys of records are made of these: under other names everything would count twice."""
    if not source.n_records and not SealedHour.objects.filter(source=source).exists():
        return
    for name in ("namespace", "cluster"):
        if name in given and given[name] != getattr(source, name):
            message = "It can't change once there are records: make another source."
            raise Conflict(f"{name}: {message}", code="has_records", fields=[FieldProblem(name, message)])


def _place(settings: Mapping[str, Any]) -> list[Any]:
    return [settings["collecting"].get(name) for name in _PLACE_OF_CURSOR]


def _first_due(source: Source, at: datetime) -> datetime | None:
    return at if source.is_collected and source.collect_every_s else None


def _switch(slug: str, is_paused: bool, at: datetime, actor: Actor) -> Source:
    _require_admin(actor, slug)
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
    """Hide a source, or (None) take it back, in the caller's transaction; None where it is so already.

    Its usage counts nowhere while it is archived, and hours of others that were held because of it do.
    """
    lock_source(source_id)  # after a batch that is being stored
    source = Source.all_objects.select_for_update().get(pk=source_id)
    if (source.archived_at is None) == (archived_at is None):
        return None
    source.archived_at = archived_at
    source.save(update_fields=["archived_at"])
    changed = {source.pk, *Overlap.objects.filter(kept=source).values_list("held_id", flat=True)}
    note_all_changed(changed)
    bump(changed)
    return source


def _locked(slug: str) -> Source:
    source = Source.all_objects.select_for_update(no_key=True).filter(slug=slug).first()
    if source is None:
        raise NotFound(f"There is no usage source {slug[:64]!r}.")
    return source


def _require_admin(actor: Actor, slug: str) -> None:
    """Settings name programs, folders and addresses of this machine: a token that may write usage isn't enough."""
    if actor.is_admin:
        return
    if actor.token is not None and actor.token.source_slug not in ("", slug):
        raise NotFound(f"There is no usage source {slug[:64]!r}.")
    raise NotAllowed("Settings of usage sources are made by administrators.")
