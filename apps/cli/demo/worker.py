"""The worker of one instance of a grid on loopback: it does through the product's services what people would ask for.

It reads one command a line (`{"do": name, …}`) and answers with one: `{"result": …}` or `{"error", "code"}`. Its
clock is the file that FAIRSHARE_CLOCK names, as the web server's beside it. `start_worker` starts it.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from celery import current_app
from django.conf import settings as site_settings
from django.core.management import call_command

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import Token, User
from apps.accounts.services import NewToken, make_token, make_user
from apps.cli.demo.worker_names import POLICY, SOURCE
from apps.core import clock
from apps.core.errors import DomainError, Invalid
from apps.core.plugins import keyed
from apps.federation import publishing as publications
from apps.federation.documents.site_keys import load_keys
from apps.federation.mounts import services as mounts
from apps.federation.usage_feeds import feeds, subscriptions
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.models import Policy
from apps.policies.publishing.direct import publish_operations
from apps.policies.records import PolicyDetails
from apps.policies.services import make_policy, publish_document
from apps.policies.tree.stored import load_tree
from apps.runs.models import Run
from apps.runs.presence import keep_reporting
from apps.runs.services import work_due_runs
from apps.usage.services import NewSource, make_source

_WHY = "The grid's agreement."
COMMANDS: dict[str, Callable[..., Any]] = {}


def command(function: Callable[..., Any]) -> Callable[..., Any]:
    COMMANDS[function.__name__] = function
    return function


@command
def govern(root: dict[str, Any], settings: dict[str, Any], title: str = POLICY) -> str:
    """A policy; the fingerprint by which others know this authority."""
    at = clock.now()
    make_policy(slug=POLICY, name=title, details=PolicyDetails(visibility="tree"), at=at, actor=COMMAND)
    document = {"settings": settings, "root": root}
    publish_document(policy_slug=POLICY, document=document, reason=_WHY, at=at, actor=COMMAND)
    key: str = fingerprint()
    return key


@command
def fingerprint() -> str:
    return load_keys(at=clock.now()).key.public.fingerprint


@command
def publish(entry: str, name: str) -> None:
    publications.make_publication(
        policy_slug=POLICY, entry=entry, name=name, is_open=True, at=clock.now(), actor=COMMAND
    )


@command
def manage(arguments: list[str]) -> str:
    """Run a command of `manage.py`; returns its output."""
    output = io.StringIO()
    call_command(*arguments, stdout=output)
    return output.getvalue()


@command
def mount(entry: str, url: str, fingerprint: str, settings: dict[str, Any]) -> int:
    """After a fetch: its key must be the one from the separate channel."""
    at = clock.now()
    seen = mounts.preview(url=url, policy_slug=POLICY, at=at, actor=COMMAND)
    _check_key(seen.key.fingerprint, fingerprint)
    head = seen.document.head
    made = mounts.make_mount(
        policy_slug=POLICY,
        entry=entry,
        url=url,
        issuer=head.issuer,
        publication=head.publication,
        fingerprint=fingerprint,
        settings=settings,
        reason=_WHY,
        at=at,
        actor=COMMAND,
    )
    return made.pk


@command
def publish_usage(entry: str, name: str, cores: float) -> None:
    feeds.make_feed(
        policy_slug=POLICY, entry=entry, name=name, capacity_cores=cores, is_open=True, at=clock.now(), actor=COMMAND
    )


@command
def subscribe(peers: list[tuple[str, str, str, float]], settings: dict[str, Any]) -> None:
    """To each (entry, address, fingerprint, cores): after a fetch, and by the key from the separate channel."""
    at = clock.now()
    for entry, url, fingerprint, cores in peers:
        seen = subscriptions.preview_feed(url=url, policy_slug=POLICY, entry=entry, at=at, actor=COMMAND)
        _check_key(seen.key.fingerprint, fingerprint)
        head = seen.document.head
        subscriptions.subscribe(
            policy_slug=POLICY,
            entry=entry,
            url=url,
            issuer=head.issuer,
            feed=head.feed,
            fingerprint=fingerprint,
            capacity_cores=cores,
            settings=settings,
            reason=_WHY,
            at=at,
            actor=COMMAND,
        )


@command
def count_usage(leaves: list[str]) -> None:
    """One source of this site's own; the user named like a leaf is mapped to it."""
    at = clock.now()
    make_source(NewSource(slug=SOURCE, name=SOURCE, namespace=SOURCE, site=""), at=at, actor=COMMAND)
    tree = load_tree(Policy.objects.get(slug=POLICY))
    uids = {tree.name[i]: tree.uuid(i) for i in range(len(tree))}
    rules = [Rule(kind="exact", target_uid=uids[leaf], namespace=SOURCE, user_pattern=leaf) for leaf in leaves]
    set_rules(policy_slug=POLICY, rules=rules, at=at, actor=COMMAND)


@command
def change_shares(shares: dict[str, float]) -> None:
    change([{"op": "set_shares", "entry": entry, "shares": n} for entry, n in shares.items()])


@command
def change(operations: list[dict[str, Any]]) -> None:
    publish_operations(policy_slug=POLICY, operations=operations, reason="Times change.", at=clock.now(), actor=COMMAND)


@command
def make_admin(username: str, password: str, scopes: list[str]) -> str:
    """An administrator who signs in; the text of a token for programs of the site."""
    at = clock.now()
    user, _ = make_user(username=username, email="", password=password, is_admin=True, at=at, actor=COMMAND)
    new = NewToken(name="scheduler", scopes=[Token.Scope(scope) for scope in scopes], user=user, policy_slug="")
    _token, text = make_token(new, at=at, actor=Actor(user=User.objects.get(pk=user.pk), via="command"))
    return text


_done_at: dict[str, datetime] = {}


@command
def keep_schedule() -> list[str]:
    """What beat and workers do at this instant: tasks whose time has come, then all due runs. Returns new failures."""
    if not _done_at:
        current_app.loader.import_default_modules()
        keep_reporting("worker")
    before = Run.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    schedule: Mapping[str, Mapping[str, Any]] = site_settings.CELERY_BEAT_SCHEDULE
    entries: dict[str, float] = {entry["task"]: entry["schedule"] for entry in schedule.values()}
    entries |= dict(keyed("schedule").values())
    at = clock.now()
    for task, every_s in entries.items():
        if task not in _done_at or at >= _done_at[task] + timedelta(seconds=every_s):
            _done_at[task] = at
            current_app.tasks[task]()
    work_due_runs(clock=clock.now)
    failed = Run.objects.filter(pk__gt=before).exclude(error="").exclude(state=Run.State.SUCCEEDED)
    return [f"{run.kind} {run.subject}: {run.error}" for run in failed]


def _check_key(seen: str, expected: str) -> None:
    if seen != expected:
        raise Invalid("The key is another one than its authority named.", code="other_key")


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # whatever else is printed goes to the log
    for line in sys.stdin:
        arguments = json.loads(line)
        try:
            answer = {"result": COMMANDS[arguments.pop("do")](**arguments)}
        except DomainError as error:
            answer = {"error": error.message, "code": error.code}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "code": "failed"}
        answers.write(json.dumps(answer) + "\n")
