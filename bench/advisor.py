"""The advisor on public logs: its advice from the first days, and how far from fair use the held-back days are with it.

Each log is imported into a policy with the default settings, in which all groups, and all users of a group, have equal
shares. The ratio is the distance on the held-back days with the advised settings to that with the default ones: 1 where
the advice is to keep them. A second line compares the advised settings with every other setting that was tried, on the
held-back days, which chose nothing: how many they beat, and by how much beyond twice the standard error of the paired
replays; and the most points by which another one that keeps the properties beats them. The margins are those of
`apps.contrib.lab.comparison.verdict`, fixed before. Logs that aren't at hand are named and left out.
"""

from __future__ import annotations

import io
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from bench.clock import stopped_clock
from bench.report import BenchLine

if TYPE_CHECKING:
    from apps.contrib.lab.advisor.records import Evidence
    from apps.contrib.lab.comparison.verdict import ReplayFacts
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
        yield from advised(f"advisor-{name.lower()}", name, path.read_bytes())


def advised(slug: str, name: str, log: bytes) -> list[BenchLine]:
    from apps.contrib.lab.advisor.advise import advise
    from apps.contrib.lab.advisor.measuring import measure_policy

    policy, at = imported(slug, log)
    with stopped_clock(at):
        began = time.process_time()
        evidence = measure_policy(policy, at=at)
        advice = advise(evidence)
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
    return [
        BenchLine(f"held-back days of {name}, advised / default", ratio, 1.0, detail),
        _beside_others(name, evidence),
    ]


def _beside_others(name: str, evidence: Evidence) -> BenchLine:
    """The advised settings beside all others, on the held-back days."""
    from apps.contrib.lab.comparison.verdict import FEWEST_POINTS, keeps_properties

    chosen = _advised_facts(evidence)
    others = {
        f"{each.name} ({subject})": each
        for subject, facts in (
            ("operator", evidence.tried_operators),
            ("half-life", evidence.half_lives),
            ("algorithm", evidence.algorithms),
        )
        for each in facts
        if each.held_back and each.held_back != chosen.held_back
    }
    gains = {title: _beyond_spread(each.held_back, chosen.held_back) for title, each in others.items()}
    beaten = {title: gain for title, gain in gains.items() if gain > 0}
    missed = {
        title: _beyond_spread(chosen.held_back, each.held_back)
        for title, each in others.items()
        if keeps_properties(chosen, each)
    }
    most = max([0.0, *missed.values()])
    texts = ", ".join(f"{title} by {gain:.2f}" for title, gain in sorted(beaten.items(), key=lambda pair: -pair[1]))
    nearer = ", ".join(f"{title} by {gain:.2f}" for title, gain in missed.items() if gain > 0)
    detail = f"beats {len(beaten)} of {len(others)} beyond the spread: {texts or 'none'}; beaten by: {nearer or 'none'}"
    return BenchLine(f"held-back days of {name}, points missed", most, FEWEST_POINTS, detail)


def _advised_facts(evidence: Evidence) -> ReplayFacts:
    """Of all recommended settings together: of one changed setting its own, else those of the policy."""
    from apps.contrib.lab.advisor.advise import recommended_facts

    facts = recommended_facts(evidence)
    if facts is None:
        raise RuntimeError("The held-back days were not replayed.")
    return facts


def _beyond_spread(farther: Sequence[float], nearer: Sequence[float]) -> float:
    """Points by which the second is nearer, less twice the standard error of the pairs; 0 where that is less."""
    gains = [before - after for before, after in zip(farther, nearer, strict=True)]
    error = stdev(gains) / sqrt(len(gains)) if len(gains) > 1 else 0.0
    return max(0.0, fmean(gains) - 2.0 * error)


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
