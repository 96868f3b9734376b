"""The worker of one instance: it does through the product's services what people and the schedule would ask for.

`python -m tests.ring.worker` reads one command a line (`{"do": name, …}`) and answers each with a line: `{"result": …}`
or `{"error", "code"}`. Its clock is the file that FAIRSHARE_CLOCK names, as the web server's beside it.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import django

django.setup()

from django.core.management import call_command  # noqa: E402 - after Django is set up
from django.db.models import Count  # noqa: E402

from apps.accounts.actor import COMMAND  # noqa: E402
from apps.core import clock  # noqa: E402
from apps.core.errors import DomainError  # noqa: E402
from apps.federation import fetch_requests  # noqa: E402
from apps.federation import fetch_schedule as fetching  # noqa: E402
from apps.federation import publishing as publications  # noqa: E402
from apps.federation.document_builds import request_due_builds  # noqa: E402
from apps.federation.documents.site_keys import load_keys  # noqa: E402
from apps.federation.models import Fetch, Mount, Subscription  # noqa: E402
from apps.federation.mounts import services as mounts  # noqa: E402
from apps.federation.usage_feeds import feeds, subscriptions  # noqa: E402
from apps.mapping.rules.rule import Rule  # noqa: E402
from apps.mapping.services import set_rules  # noqa: E402
from apps.policies.models import Policy  # noqa: E402
from apps.policies.publishing.direct import publish_operations  # noqa: E402
from apps.policies.records import PolicyDetails  # noqa: E402
from apps.policies.services import make_policy, publish_document  # noqa: E402
from apps.policies.tree.stored import load_tree  # noqa: E402
from apps.priorities.recompute.staleness import recompute_stale  # noqa: E402
from apps.priorities.serving import store  # noqa: E402
from apps.runs.models import Run  # noqa: E402
from apps.runs.services import work_due_runs  # noqa: E402
from apps.usage.models import Source  # noqa: E402
from apps.usage.parsers.base import RecordRow  # noqa: E402
from apps.usage.records.ingest import ingest_batch  # noqa: E402
from apps.usage.services import NewSource, make_source  # noqa: E402

POLICY = "grid"
SOURCE = "cluster"
_WHY = "The grid's agreement."
COMMANDS: dict[str, Callable[..., Any]] = {}


def command(function: Callable[..., Any]) -> Callable[..., Any]:
    COMMANDS[function.__name__] = function
    return function


@command
def govern(root: dict[str, Any], settings: dict[str, Any]) -> str:
    """A policy; the fingerprint by which others know this authority."""
    at = clock.now()
    make_policy(slug=POLICY, name=POLICY, details=PolicyDetails(visibility="tree"), at=at, actor=COMMAND)
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
    """A command of `manage.py`, and what it said."""
    found = io.StringIO()
    call_command(*arguments, stdout=found)
    return found.getvalue()


@command
def mount(entry: str, url: str, fingerprint: str, settings: dict[str, Any]) -> int:
    """After a fetch: its key must be the one from the separate channel."""
    at = clock.now()
    seen = mounts.preview(url=url, policy_slug=POLICY, at=at, actor=COMMAND)
    assert seen.key.fingerprint == fingerprint, "another key than its authority named"
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
def tell_usage(entry: str, name: str, cores: float) -> None:
    feeds.make_feed(
        policy_slug=POLICY, entry=entry, name=name, capacity_cores=cores, is_open=True, at=clock.now(), actor=COMMAND
    )


@command
def subscribe(peers: list[tuple[str, str, str, float]], settings: dict[str, Any]) -> None:
    """To each (entry, address, fingerprint, cores): after a fetch, and by the key from the separate channel."""
    at = clock.now()
    for entry, url, fingerprint, cores in peers:
        seen = subscriptions.preview_feed(url=url, policy_slug=POLICY, entry=entry, at=at, actor=COMMAND)
        assert seen.key.fingerprint == fingerprint, "another key than its site named"
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
    found = {tree.name[i]: tree.uuid(i) for i in range(len(tree))}
    rules = [Rule(kind="exact", target_uid=found[leaf], namespace=SOURCE, user_pattern=leaf) for leaf in leaves]
    set_rules(policy_slug=POLICY, rules=rules, at=at, actor=COMMAND)


@command
def lead(policy: str, rules: list[dict[str, Any]]) -> None:
    """One source of this site's own, and rules that lead its users to entries, each named by its path."""
    at = clock.now()
    make_source(NewSource(slug=SOURCE, name=SOURCE, namespace=SOURCE, site=""), at=at, actor=COMMAND)
    tree = load_tree(Policy.objects.get(slug=policy))
    found = {tree.path(i): tree.uuid(i) for i in range(len(tree))}
    made = [Rule(kind="glob", target_uid=found[rule.pop("path")], namespace=SOURCE, **rule) for rule in rules]
    set_rules(policy_slug=policy, rules=made, at=at, actor=COMMAND)


@command
def change_shares(shares: dict[str, float]) -> None:
    change([{"op": "set_shares", "entry": entry, "shares": n} for entry, n in shares.items()])


@command
def change(operations: list[dict[str, Any]]) -> None:
    publish_operations(policy_slug=POLICY, operations=operations, reason="Times change.", at=clock.now(), actor=COMMAND)


@command
def wait_at_most(total_s: float) -> None:
    """For a whole answer of a peer, where the product's own limit would make a day of faults a long one."""
    fetch_requests.TOTAL_S = total_s


@command
def take(rows: list[list[Any]]) -> int:
    """Records of jobs that started or ended: how many are new. Feeds are built afterwards, as by the schedule."""
    n_new = _ingested(rows) if rows else 0
    _build()
    return n_new


def _ingested(rows: list[list[Any]]) -> int:
    source = Source.objects.get(slug=SOURCE)
    records = [
        RecordRow(
            job=str(number),
            user=leaf,
            group="",
            state="running" if end_s is None else "finished",
            submit_at=_instant(submit_s),
            start_at=_instant(start_s),
            end_at=None if end_s is None else _instant(end_s),
            cpus=cpus,
            requested_s=requested_s,
        )
        for number, leaf, submit_s, start_s, end_s, cpus, requested_s in rows
    ]
    counts = ingest_batch(source=source, rows=records, at=clock.now())
    assert counts.rejected == 0, counts.rejections
    return counts.new


def _instant(epoch_s: float) -> datetime:
    return datetime.fromtimestamp(epoch_s, UTC)


def _build() -> None:
    request_due_builds(at=clock.now())
    work_due_runs(clock=clock.now)


@command
def look() -> dict[str, str]:
    """At everything of others' that is due: what became of it, by the subject of the run. Then builds are due."""
    before = Run.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    fetching.request_due_fetches(at=clock.now())
    work_due_runs(clock=clock.now)
    _build()
    runs = Run.objects.filter(pk__gt=before, kind=fetching.KIND)
    return {run.subject: run.result.get("outcome", run.error or run.state) for run in runs}


@command
def work() -> None:
    """What was asked for, by whomever: nothing new is asked for."""
    work_due_runs(clock=clock.now)


@command
def recompute(policy: str = POLICY) -> dict[str, list[Any]]:
    """The newest snapshot, recomputed after changes: [rank or null, core-seconds] of each entry by name."""
    recompute_stale(at=clock.now())
    work_due_runs(clock=clock.now)
    store.poll()
    snapshot = store.newest(policy, poll=False)
    values, tree = snapshot.values, snapshot.tree
    return {
        tree.name[i]: [int(values.rank[i]) if values.is_ranked[i] else None, float(values.usage[i])]
        for i in range(1, len(tree))
    }


@command
def timeline() -> dict[str, dict[str, int]]:
    """Number of fetches by outcome: `outcome` or `outcome code`, by what was fetched."""
    found: dict[str, Counter[str]] = {}
    for one in Fetch.objects.select_related("mount", "subscription").order_by("id"):
        result = f"{one.outcome} {one.code}".strip()
        found.setdefault(str(one.mount or one.subscription), Counter())[result] += 1
    return {name: dict(counts) for name, counts in found.items()}


@command
def remotes() -> dict[str, dict[str, Any]]:
    """Of everything mounted or subscribed to: its state, what was wrong with the last look, and what is held."""
    found: dict[str, dict[str, Any]] = {}
    for mounted in Mount.objects.all():
        found[str(mounted)] = {"state": mounted.state, "error": mounted.error_code, "applied": mounted.applied_version}
    for row in Subscription.objects.annotate(n_held=Count("held_hours")):
        found[str(row)] = {"state": row.state, "error": row.error_code, "held": row.n_held}
    return found


@command
def failed_runs() -> list[str]:
    """Outcomes that no run of this instance may have."""
    return [f"{run.kind} {run.subject}: {run.error}" for run in Run.objects.exclude(state=Run.State.SUCCEEDED)]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # whatever else is printed goes to the log
    for line in sys.stdin:
        given = json.loads(line)
        try:
            found = {"result": COMMANDS[given.pop("do")](**given)}
        except DomainError as error:
            found = {"error": error.message, "code": error.code}
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}", "code": "failed"}
        answers.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
