"""The advisor on public logs: its advice from the first days, and how far from fair use the held-back days are with it.

Each log is imported into a policy with the default settings, in which all groups, and all users of a group, have equal
shares. The ratio is the distance on the held-back days with the advised settings to that with the default ones: 1 where
the advice is to keep them. Logs that aren't at hand are named and left out.
"""

from __future__ import annotations

import io
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bench.clock import stopped_clock
from bench.report import BenchLine

if TYPE_CHECKING:
    from apps.policies.models import Policy

TRACES = Path(__file__).resolve().parent.parent.parent / "shared" / "traces"
LOGS = {
    "LCG": "LCG-2005-1.swf.gz",
    "NASA": "NASA-iPSC-1993-3.1-cln.swf.gz",
    "SDSC": "SDSC-SP2-1998-first4961.swf.gz",
    "HPC2N": "HPC2N-2002-first3171.swf.gz",
}


def measure_large() -> list[BenchLine]:
    return list(_lines())


def _lines() -> Iterator[BenchLine]:
    for name, file_name in LOGS.items():
        path = TRACES / file_name
        if not path.exists():
            print(f"{file_name} is not at hand: {name} is left out", file=sys.stderr)
            continue
        yield advised(f"advisor-{name.lower()}", name, path.read_bytes())


def advised(slug: str, name: str, log: bytes) -> BenchLine:
    from apps.contrib.lab.advisor.advise import advise
    from apps.contrib.lab.advisor.measuring import measure_policy

    policy, at = imported(slug, log)
    with stopped_clock(at):
        began = time.process_time()
        advice = advise(measure_policy(policy, at=at))
        took_s = time.process_time() - began
    held_back = advice.held_back
    if held_back is None:
        raise RuntimeError(f"{name} has too few days.")
    for choice in advice.choices:
        print(f"  {name} {choice.title}: {choice.sentence}", file=sys.stderr)
        for each in choice.candidates:
            print(f"    {each.name}: {each.values}", file=sys.stderr)
    ratio = held_back.recommended_points / held_back.now_points
    detail = f"{advice.sentence} {held_back.sentence} {took_s:.0f} s of processor time"
    return BenchLine(f"held-back days of {name}, advised / default", ratio, 1.0, detail)


def imported(slug: str, log: bytes) -> tuple[Policy, datetime]:
    """(a policy of the log's groups and users with equal shares, the end of the last day), with priorities computed."""
    from django.db.models import Max, Min

    from apps.accounts.actor import COMMAND
    from apps.accounts.models import Account
    from apps.core.clock import now
    from apps.mapping.rules.rule import Rule
    from apps.mapping.services import set_rules
    from apps.policies.models import Policy
    from apps.policies.services import make_policy, publish_document
    from apps.policies.tree.stored import load_tree
    from apps.priorities.recompute.staleness import request_recompute
    from apps.runs.services import work_run_now
    from apps.usage.models import Record
    from apps.usage.services import NewImport, start_import

    new = NewImport(source_slug=slug, format="swf", file=io.BytesIO(log), file_name="log.swf.gz", makes_source=True)
    run = work_run_now(start_import(new, at=now(), actor=COMMAND).run_id)
    if run.state != "succeeded":
        raise RuntimeError(run.error)
    records = Record.objects.filter(source__slug=slug)
    span = records.aggregate(first=Min("submit_at"), last=Max("end_at"))
    first_at, at = span["first"], span["last"] + timedelta(days=1)
    groups: dict[str, list[str]] = defaultdict(list)
    accounts = Account.objects.filter(pk__in=records.values("account").distinct())
    for group, user in accounts.values_list("group_name", "user_name").order_by("group_name", "user_name"):
        groups[group].append(user)
    children = [
        {"name": group, "kind": "group", "shares": 1, "children": [_user(user) for user in users]}
        for group, users in groups.items()
    ]
    document = {"policy": slug, "root": {"name": slug, "shares": 1, "children": children}}
    with stopped_clock(at):
        make_policy(slug=slug, name=slug, at=first_at, actor=COMMAND)
        publish_document(policy_slug=slug, document=document, reason="bench", at=first_at, actor=COMMAND)
        policy = Policy.objects.get(slug=slug)
        rule = Rule("glob", load_tree(policy).uuid(0), suffix="/{group}/{user}")
        set_rules(policy_slug=slug, rules=[rule], at=first_at, actor=COMMAND)
        computed = work_run_now(request_recompute(policy_slug=slug, as_of=None, at=at, actor=COMMAND).pk)
    if computed.state != "succeeded":
        raise RuntimeError(computed.error)
    return policy, at


def _user(name: str) -> dict[str, object]:
    return {"name": name, "kind": "user", "shares": 1}
