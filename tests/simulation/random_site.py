"""A site of two policies to which random things happen, in an order that a seed decides."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction

from apps.accounts.account_index import load_account_index
from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import COMMAND
from apps.core.errors import DomainError
from apps.core.resource_kinds import NO_KINDS, Kinds, gpus_of
from apps.mapping.attachments import attach_account, detach_account
from apps.mapping.models import Attachment
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.changesets.lifecycle import schedule_change_set
from apps.policies.models import Adjustment
from apps.policies.operations.dated_shares import shares_operations
from apps.policies.publishing.direct import publish_operations
from apps.policies.publishing.revert import revert_revision
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.usage.models import Overlap, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.overlaps import decide_overlap
from apps.usage.records.undo import undo_import
from apps.usage.services import NewImport, NewSource, make_source, start_import
from apps.usage.sources.services import change_source, set_archived, tag_of
from tests.priority_site import AS_OF, Site, new_site

GROUPS = ("physics", "biology", "chem", "astro", "ﬁsh", "é")
USERS = ("alice", "bob", "carol", "dan", "eve", "e\u0301", "ann")
DAY_S = 86_400
WINDOWS: tuple[dict[str, Any], ...] = (
    {"length_s": None, "aging": "none"},
    {"length_s": 3 * DAY_S, "aging": "exponential", "half_life_s": DAY_S},
    {"length_s": 90 * DAY_S, "aging": "exponential", "half_life_s": 7 * DAY_S},
    {"length_s": None, "aging": "exponential", "half_life_s": 3600},
    {"length_s": 200_000, "aging": "step", "granularity_s": 40_000, "factor": 0.7},
    {"length_s": 7200, "aging": "none"},
    {"length_s": 5 * DAY_S, "aging": "linear"},
)
# In which usage of the former month still counts.
LATE_WINDOWS: tuple[dict[str, Any], ...] = (
    WINDOWS[2],
    WINDOWS[2],
    {"length_s": 60 * DAY_S, "aging": "linear"},
    {"length_s": None, "aging": "exponential", "half_life_s": 7 * DAY_S},
)
ALGORITHMS: tuple[dict[str, Any], ...] = (
    {"name": "aequus"},
    {"name": "aequus", "operator": "absolute", "resolution": 100, "factor_from": "key"},
    {"name": "gridwide"},
    {"name": "slurm-fair-tree"},
    {"name": "slurm-classic"},
    {"name": "flux"},
)
METRICS: tuple[dict[str, Any], ...] = (
    {"weights": {"cpu_s": 1.0}},
    {
        "weights": {"cpu_s": 1.0, "gpu_s": 10.0},
        "class_factors": [{"queue": "long", "factor": 0.5}],
        "site_factors": [{"site": "north", "factor": 2}],
    },
    {"weights": {"cpu_s": 1.0, "gpu_s": 2.0, "gpu:h100": 16.0, "license/matlab": 4.0, "energy": 2.0**-10}},
)
KINDS: tuple[Kinds, ...] = (
    NO_KINDS,
    NO_KINDS,
    (("gpu:h100", 2.0),),
    (("energy", 4_096.0), ("gpu:h100", 1.0), ("gpu:t4", 1.0)),
    (("license/matlab", 3.0),),
)
APPROACHES = ({"local": "historical", "global": "historical"}, {"local": "active", "global": "predictive"})
NAMESPACES = ("c1", "c2")
SITES = ("", "north")
KEPT_DAYS = 35
AGO_H = (0.01, 0.3, 1.5, 5, 30, 100, 24 * 9, 24 * 40)  # that jobs ended before they are reported
LATE_H = (0.01, 1.5, 30, 100, 24 * 9, 24 * 22, 24 * 40, 24 * 40)


class RandomSite:
    """`act` does one random thing at the instant `at`; `log` says what was done."""

    def __init__(self, seed: int, *, is_late: bool = False) -> None:
        self.random = random.Random(seed)
        self._ago_h = LATE_H if is_late else AGO_H
        self._windows = LATE_WINDOWS if is_late else WINDOWS
        self.at = AS_OF + timedelta(seconds=2)
        self.log: list[str] = []
        self.policies = [new_site("p1"), new_site("p2")]
        self.sources = [site.source.pk for site in self.policies]
        self._n = 0
        self._rows: Sequence[RecordRow] = ()
        self._running: tuple[int, RecordRow] | None = None
        self._imports: list[int] = []
        self._set_clock()
        # Records of the second policy's source are removed after a while.
        Source.objects.filter(pk=self.sources[1]).update(keep_records_days=KEPT_DAYS)
        for site in self.policies:
            site.publish(
                [self._group(name) for name in self.random.sample(GROUPS, self.random.randint(2, 4))],
                {"window": self.random.choice(self._windows), "algorithm": self.random.choice(ALGORITHMS[:3])},
                at=AS_OF - timedelta(days=20),
            )
            site.map(at=AS_OF - timedelta(days=20))
        self._actions: list[Callable[[], None]] = [
            *[self._ingest_jobs] * 5,
            *[self._change_entry] * 3,
            self._correct_jobs,
            self._repeat_jobs,
            self._withdraw_jobs,
            self._run_job,
            self._import_log,
            self._import_log,
            self._undo_import,
            self._revert,
            self._schedule_boost,
            self._change_settings,
            self._change_rules,
            self._attach,
            self._change_source,
            self._roll_back,
        ]

    def act(self) -> None:
        """Do one random thing, if it isn't refused."""
        action = self.random.choice(self._actions)
        try:
            action()
        except DomainError as refusal:
            self.say("refused", action.__name__, str(refusal)[:100])

    def advance(self, *steps: timedelta) -> None:
        self.at += self.random.choice(steps)
        self._set_clock()

    def say(self, *words: object) -> None:
        self.log.append(f"{self.at:%d %b %H:%M} " + " ".join(map(str, words)))

    def number(self) -> int:
        self._n += 1
        return self._n

    def memory(self) -> tuple[object, ...]:
        """What it knows of its database, for `remember` when an older one is restored."""
        return list(self.sources), self._rows, self._running, list(self._imports)

    def remember(self, memory: tuple[object, ...]) -> None:
        sources, self._rows, self._running, imports = memory  # type: ignore[assignment]
        self.sources = list(sources)  # type: ignore[call-overload]
        self._imports = list(imports)  # type: ignore[call-overload]

    def any_policy(self) -> Site:
        site = self.random.choice(self.policies)
        site.policy.refresh_from_db()
        return site

    def _set_clock(self) -> None:
        os.environ["FAIRSHARE_CLOCK"] = self.at.isoformat()

    def _group(self, name: str) -> dict[str, Any]:
        users = self.random.sample(USERS, self.random.randint(1, 4))
        children = [{"name": user, "kind": "user", "shares": self.random.randint(0, 4)} for user in users]
        return {"name": name, "kind": "group", "shares": self.random.randint(1, 5), "children": children}

    def _any_source(self) -> Source:
        return Source.all_objects.get(pk=self.random.choice(self.sources))

    def _ingest_jobs(self) -> None:
        pick = self.random.choice
        ago_h, hours = pick(self._ago_h), pick([0.001, 0.5, 3, 30])
        waited_h = pick([0.0, 0.1])
        end_at = self.at - timedelta(hours=ago_h)
        start_at = end_at - timedelta(hours=hours)
        rows = [
            RecordRow(
                job=f"j{self.number()}",
                user=pick(USERS),
                group=pick(GROUPS),
                submit_at=start_at - timedelta(hours=waited_h),
                start_at=start_at,
                end_at=end_at,
                cpus=pick([1, 2, 64, 0]),
                gpus=gpus_of(kinds) + pick([0, 1]),
                queue=pick(["", "long"]),
                site=pick(["", "", "north", "south"]),
                kinds=kinds,
            )
            for kinds in self.random.choices(KINDS, k=self.random.randint(1, 3))
        ]
        source = self._any_source()
        ingest_batch(source=source, rows=rows, at=self.at)
        self.say("jobs", source.slug, f"ended {ago_h} h ago", len(rows))
        self._rows = rows

    def _correct_jobs(self) -> None:
        if not self._rows:
            return
        source = self._any_source()
        rows = [row._replace(revision=row.revision + 1, cpus=row.cpus / 2, kinds=row.kinds[1:]) for row in self._rows]
        ingest_batch(source=source, rows=rows, at=self.at)
        self.say("jobs corrected", source.slug)
        self._rows = rows

    def _repeat_jobs(self) -> None:
        """The same records come once more, or from another source."""
        if self._rows:
            source = self._any_source()
            ingest_batch(source=source, rows=self._rows, at=self.at)
            self.say("jobs repeated", source.slug)

    def _withdraw_jobs(self) -> None:
        if not self._rows:
            return
        source = self._any_source()
        rows = [row._replace(revision=row.revision + 1, state="withdrawn") for row in self._rows]
        ingest_batch(source=source, rows=rows, at=self.at)
        self.say("jobs withdrawn", source.slug)
        self._rows = ()

    def _import_log(self) -> None:
        """Lines of Slurm, some of them twice and one of them no job; the next workers import them."""
        source, pick = self._any_source(), self.random.choice
        jobs = [self._line(pick(self._ago_h)) for _ in range(self.random.randint(1, 20))]
        lines = [*jobs, *self.random.sample(jobs, len(jobs) // 3), "what is no job"]
        self.random.shuffle(lines)
        text = "\n".join(["JobIDRaw|User|Account|Submit|Start|End|State|AllocCPUS", *lines]) + "\n"
        new = NewImport(source.slug, "sacct", io.BytesIO(text.encode()), "log.txt", time_zone="UTC")
        made = start_import(new, at=self.at, actor=COMMAND)
        self._imports.append(made.pk)
        self.say("log of", source.slug, len(lines), "lines")

    def _line(self, ago_h: float) -> str:
        pick = self.random.choice
        end_at = self.at - timedelta(hours=ago_h * self.random.uniform(1, 1.2))
        start_at = end_at - timedelta(hours=pick([0.01, 0.5, 3, 30]))
        times = [f"{each:%Y-%m-%dT%H:%M:%S}" for each in (start_at, start_at, end_at)]
        return "|".join([str(self.number()), pick(USERS), pick(GROUPS), *times, "COMPLETED", str(pick([1, 2, 64]))])

    def _undo_import(self) -> None:
        if self._imports:
            made = undo_import(import_id=self.random.choice(self._imports), at=self.at, actor=COMMAND)
            self.say("undoes", made.source.slug, made.pk)

    def _run_job(self) -> None:
        """Start a job, or end the one that runs."""
        if self._running is not None:
            source_id, row = self._running
            self._running = None
            ended = row._replace(state="finished", end_at=self.at)
            ingest_batch(source=Source.all_objects.get(pk=source_id), rows=[ended], at=self.at)
            self.say("job ended")
            return
        row = RecordRow(
            job=f"r{self.number()}",
            user=self.random.choice(USERS),
            group=self.random.choice(GROUPS),
            state="running",
            submit_at=self.at - timedelta(hours=2),
            start_at=self.at - timedelta(hours=1.5),
            end_at=None,
            cpus=4,
            requested_s=7200,
        )
        source = self._any_source()
        ingest_batch(source=source, rows=[row], at=self.at)
        self._running = source.pk, row
        self.say("job runs", source.slug)

    def _change_entry(self) -> None:
        site = self.any_policy()
        tree = load_tree(site.policy)
        operation = self._operation(site, tree)
        if operation is None:
            return
        publish_operations(policy_slug=site.slug, operations=[operation], reason="random", at=self.at, actor=COMMAND)
        self.say(site.slug, operation)

    def _operation(self, site: Site, tree: TreeColumns) -> dict[str, Any] | None:
        pick = self.random.choice
        entry = self.random.randrange(1, len(tree)) if len(tree) > 1 else 0
        path = tree.path(entry) or "/"
        group = tree.path(pick([place for place in range(len(tree)) if tree.n_children[place] or place == 0])) or "/"
        kind = pick(["set_shares", "rename", "move", "archive", "add", "adjust_usage", "revoke"])
        if kind == "revoke":
            adjustment = Adjustment.objects.filter(policy=site.policy).order_by("uid").first()
            if adjustment is None:
                return None
            of = tree.index_of_uid(adjustment.entry_uid)
            at_entry = "/" if of is None else tree.path(of) or "/"
            return {"op": "adjust_usage", "entry": at_entry, "revokes": str(adjustment.uid)}
        values: dict[str, dict[str, Any]] = {
            "set_shares": {"entry": path, "shares": self.random.randint(0, 9)},
            "rename": {"entry": path, "name": pick([*USERS, *GROUPS, f"x{self.number()}"])},
            "move": {"entry": path, "parent": group},
            "archive": {"entry": path},
            "add": {
                "parent": group,
                "name": pick(USERS + GROUPS),
                "kind": pick(["user", "group"]),
                "shares": self.random.randint(0, 5),
            },
            "adjust_usage": {
                "entry": path,
                "resource": "cpu_s",
                "amount_s": pick([-1, 1]) * self.random.randint(1, 50) * 3600.0,
                "at": (self.at - timedelta(hours=pick([0, 1, 30, 200]))).isoformat(),
            },
        }
        return {"op": kind, **values[kind]}

    def _revert(self) -> None:
        site = self.any_policy()
        number = self.random.randint(2, max(2, site.policy.head_number))
        draft = revert_revision(policy_slug=site.slug, number=number, at=self.at, actor=COMMAND)
        publish_change_set(id=draft.pk, version=draft.version, at=self.at, actor=COMMAND)
        self.say(site.slug, "reverts", number)

    def _schedule_boost(self) -> None:
        """Other shares from an instant to come until a day."""
        site = self.any_policy()
        tree = load_tree(site.policy)
        if len(tree) == 1:
            return
        node = tree.node(self.random.randrange(1, len(tree)))
        until = (self.at + timedelta(days=self.random.randint(1, 5))).date()
        operations = shares_operations(node, float(self.random.randint(1, 9)), until, where="entry")
        new = NewChangeSet(operations=operations, reason="random")
        draft = make_change_set(policy_slug=site.slug, new=new, at=self.at, actor=COMMAND)
        effective_at = self.at + timedelta(hours=self.random.randint(1, 30))
        schedule_change_set(id=draft.pk, version=draft.version, effective_at=effective_at, at=self.at, actor=COMMAND)
        self.say(site.slug, "boosts", node.name, "until", until, "from", effective_at)

    def _change_settings(self) -> None:
        site = self.any_policy()
        part = self.random.choice(["window", "algorithm", "metric", "approach"])
        choices: dict[str, Sequence[dict[str, Any]]] = {
            "window": self._windows,
            "algorithm": ALGORITHMS,
            "metric": METRICS,
            "approach": APPROACHES,
        }
        value = self.random.choice(choices[part])
        operation = {"op": "set_policy", "settings": {part: value}}
        publish_operations(policy_slug=site.slug, operations=[operation], reason="random", at=self.at, actor=COMMAND)
        self.say(site.slug, part, value)

    def _change_rules(self) -> None:
        site, pick = self.any_policy(), self.random.choice
        tree = load_tree(site.policy)
        rules = [site.rule()] if self.random.random() < 0.8 else []
        root = tree.uuid(0)
        for _ in range(self.random.randint(0, 2)):
            entry = tree.uuid(self.random.randrange(1, len(tree)) if len(tree) > 1 else 0)
            rule = pick(
                [
                    Rule(kind="exact", target_uid=entry, user_pattern=pick(USERS)),
                    Rule(kind="glob", target_uid=root, group_pattern=pick(GROUPS), suffix=f"/{pick(GROUPS)}/{{user}}"),
                    Rule(kind="glob", target_uid=root, namespace=pick(NAMESPACES), suffix="/{group}/{user}"),
                    Rule(kind="default", target_uid=entry),
                ]
            )
            rules.insert(self.random.randint(0, len(rules)), rule)
        set_rules(policy_slug=site.slug, rules=rules, at=self.at, actor=COMMAND)
        self.say(
            site.slug, "rules", [(rule.kind, rule.user_pattern, rule.group_pattern, rule.suffix) for rule in rules]
        )

    def _attach(self) -> None:
        site, pick = self.any_policy(), self.random.choice
        tree = load_tree(site.policy)
        attached = Attachment.objects.filter(policy=site.policy).order_by("pk").first()
        if attached is not None and self.random.random() < 0.5:
            detach_account(policy_slug=site.slug, attachment_id=attached.pk, at=self.at, actor=COMMAND, reason="random")
            self.say(site.slug, "account detached")
            return
        attach_account(
            policy_slug=site.slug,
            account=AccountKey("c1", pick(USERS), group_name=pick(GROUPS)),
            entry_uid=tree.uuid(self.random.randrange(len(tree))),
            reason="random",
            at=self.at,
            actor=COMMAND,
        )
        self.say(site.slug, "account attached")

    def _change_source(self) -> None:
        pick = self.random.choice
        kind = pick(["archive", "make", "origin", "namespace", "decide"])
        source = self._any_source()
        if kind == "archive":
            with transaction.atomic():
                set_archived(source.pk, None if source.archived_at else self.at)
        elif kind == "make":
            slug = f"s{self.number()}"
            new = NewSource(slug=slug, name=slug, namespace=pick(NAMESPACES), site=pick(SITES))
            self.sources.append(make_source(new, at=self.at, actor=COMMAND).pk)
        elif kind == "origin":
            values = {"origin": "" if source.origin else "peer"}
            change_source(slug=source.slug, tag=tag_of(source), new_settings=values, at=self.at, actor=COMMAND)
        elif kind == "namespace":
            values = {"namespace": pick(NAMESPACES)}
            change_source(slug=source.slug, tag=tag_of(source), new_settings=values, at=self.at, actor=COMMAND)
        else:
            overlap = Overlap.objects.select_related("kept", "held").order_by("pk").first()
            if overlap is None:
                return
            decide_overlap(
                site=overlap.site,
                kept_slug=overlap.kept.slug,
                held_slug=overlap.held.slug,
                counts=pick([True, False]),
                reason="random",
                at=self.at,
                actor=COMMAND,
            )
        self.say("source", kind, source.slug)

    def _roll_back(self) -> None:
        """What a transaction saw that was rolled back afterwards is of no state."""
        with transaction.atomic():
            self._ingest_jobs()
            load_account_index(use_cache=False)
            transaction.set_rollback(True)
        self._rows = ()
        self.say("rolled back")


def next_days(site: RandomSite) -> None:
    site.advance(*(timedelta(hours=hours) for hours in (1, 7, 24, 24 * 2)))


def next_minutes(site: RandomSite) -> None:
    site.advance(*(timedelta(seconds=seconds) for seconds in (0, 60, 61, 300, 1200, 3600, 7300, 90_000)))
