"""The editor on large trees: first rows, an edit, publishing five edits; whole requests in process, against the goals.

Ratios are seconds over the seconds that the goal allows. Requests go through everything that a browser's go through,
without the network.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from bench.clock import processor_s
from bench.report import BenchLine

N_ENTRIES = 100_000
MANY = 1_000_000
EDITS = 60
FIRST_ROWS_S, EDIT_S, PUBLISH_S = 1.0, 0.2, 2.0


def measure() -> list[BenchLine]:
    """A tree of 100,000 entries in 1,000 groups; then one of a million."""
    from django.conf import settings
    from django.core.management import call_command

    settings.ALLOWED_HOSTS = ["*"]
    call_command("collectstatic", interactive=False, verbosity=0)
    lines = list(_measure("editor", N_ENTRIES, edits=EDITS, goals=True))
    return [*lines, *_measure("editor-million", MANY, edits=15, goals=False)]


def _measure(slug: str, n: int, *, edits: int, goals: bool) -> Iterator[BenchLine]:
    from django.test import Client

    from apps.accounts.models import User
    from apps.policies.models import ChangeSet
    from apps.policies.tree.stored import tree_cache

    uids = prepare(slug, n)
    client = Client()
    client.force_login(User.objects.get_or_create(username="editor", is_superuser=True)[0])
    client.post(f"/policy/{slug}/edit")
    draft = ChangeSet.objects.latest("pk")
    address = f"/changes/{draft.pk}/edit/"
    tree_cache.clear()
    cold = processor_s(lambda: _ok(client.get(address)))
    warm = min(processor_s(lambda: _ok(client.get(address))) for _ in range(5))
    shown = f"{n:,} entries"
    yield BenchLine(
        f"editor, first rows, cold / {FIRST_ROWS_S:g} s",
        cold / FIRST_ROWS_S,
        1.0 if goals else None,
        f"{cold * 1e3:.0f} ms cold, {warm * 1e3:.0f} ms warm; {shown}",
    )
    began = time.process_time()
    took = [edit(client, draft.pk, address, uid, k) for k, uid in enumerate(uids[:edits])]
    own_s = (time.process_time() - began) / len(took)
    p95 = statistics.quantiles(took, n=20)[-1]
    goal = 1.0 if goals else None
    spent = f"median {statistics.median(took) * 1e3:.0f} ms of {edits}, {own_s * 1e3:.0f} ms of them computing"
    detail = f"{p95 * 1e3:.0f} ms, {spent}; {shown}"
    yield BenchLine(f"editor, an edit at the 95th percentile / {EDIT_S:g} s", p95 / EDIT_S, goal, detail)
    yield _publish(slug, n, uids[-5:], client, goal=1.0 if goals else None)


def _publish(slug: str, n: int, uids: list[UUID], client: Any, *, goal: float | None) -> BenchLine:
    from apps.policies.models import ChangeSet, Policy

    client.post(f"/policy/{slug}/edit", {"new": "1"})
    draft = ChangeSet.objects.latest("pk")
    address = f"/changes/{draft.pk}/edit/"
    for k, uid in enumerate(uids):
        edit(client, draft.pk, address, uid, 100 + k)
    draft.refresh_from_db()
    fields = {"version": draft.version, "step": "publish", "reason": "Five edits."}
    seconds = processor_s(lambda: _ok(client.post(f"{address}_finish", fields), 303))
    assert Policy.objects.get(slug=slug).head_number == 3
    return BenchLine(
        f"editor, publishing 5 edits / {PUBLISH_S:g} s",
        seconds / PUBLISH_S,
        goal,
        f"{seconds * 1e3:.0f} ms; {n:,} entries",
    )


def edit(client: Any, draft: int, address: str, uid: UUID, k: int) -> float:
    """One number typed over, with the rows that the page shows around it."""
    from apps.policies.models import ChangeSet

    version = ChangeSet.objects.values_list("version", flat=True).get(pk=draft)
    fields = {"op": "set_shares", "entry": str(uid), "shares": str(50 + k), "back": ""}
    headers = {"HX-Request": "true", "If-Match": f'"{version}"'}
    return processor_s(lambda: _ok(client.post(f"{address}_operation", fields, headers=headers)))


def prepare(slug: str, n: int) -> list[UUID]:
    """Divisions of 100 groups with 100 users each; gives users of different groups."""
    from apps.accounts.actor import COMMAND
    from apps.core.clock import now
    from apps.policies.models import Policy
    from apps.policies.services import make_policy, publish_document
    from apps.policies.tree.stored import load_tree

    make_policy(slug=slug, name=slug, at=now(), actor=COMMAND)
    groups = [_group(number) for number in range(n // 100 - 2)]  # with the root and the divisions just below n
    divisions = [{"name": f"d{at}", "children": groups[at : at + 100]} for at in range(0, len(groups), 100)]
    document = {"policy": slug, "root": {"name": slug, "children": divisions}}
    publish_document(policy_slug=slug, document=document, reason="bench", at=now(), actor=COMMAND)
    tree = load_tree(Policy.objects.get(slug=slug))
    users = tree.level_starts[-2]
    step = (len(tree) - users) // (EDITS + 5)
    return [tree.uuid(users + k * step) for k in range(EDITS + 5)]


def _group(number: int) -> dict[str, Any]:
    people = [{"name": f"u{number}-{k}", "kind": "user", "shares": 1 + k % 7} for k in range(99)]
    return {"name": f"g{number}", "shares": 1 + number % 5, "children": people}


def _ok(answer: Any, status: int = 200) -> Any:
    assert answer.status_code == status, (answer.status_code, answer.content[:500])
    return answer
