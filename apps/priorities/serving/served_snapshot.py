"""One snapshot prepared for look-ups: arrays, an index of account names, and cached JSON of entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import inf
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import orjson

from apps.engine import codecs, sweep
from apps.engine.algorithms.gridwide import class_deviations
from apps.engine.algorithms.inputs import prepare
from apps.mapping.rules.entry_names import entry_name
from apps.policies.models import Policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import TreeColumns
from apps.priorities.entry_order import Ordering, json_number, ordering_of
from apps.priorities.local_only import LocalOnlyEntry, local_only_in
from apps.priorities.recompute.totals import Totals
from apps.priorities.serving.entry_json import EntryColumns, texts_json
from apps.priorities.serving.hints import Hints
from apps.priorities.serving.lookup import (
    AccountNames,
    AccountQuery,
    LookupIndex,
    LookupResult,
    Query,
    group_names,
    restrict_to,
)
from apps.priorities.serving.new_users import EntryNumbers, NewUsers, RankAndFactor, rank_among_leaves
from apps.priorities.snapshot_values import Values

Mask = npt.NDArray[np.bool_]
I8 = npt.NDArray[np.int64]
I4 = npt.NDArray[np.int32]
Json = dict[str, Any]
Short = tuple[str, float, int | None]
_MOST_ENTRIES_CACHED = 1_000
_MOST_ANSWERS_CACHED = 65_536  # 20 MB
NO_OWN_ENTRY = "no_own_entry"
OUTSIDER_SHARES = 1.0  # of a member whom the tree lacks: what Slurm gives a new user


@dataclass(frozen=True, eq=False)
class ServedSnapshot:
    """One complete snapshot. Each answer is computed from a single snapshot and has its id."""

    snapshot_id: int
    computed_at: datetime
    tree: TreeColumns
    values: Values
    index: LookupIndex
    meta: Json
    settings: PolicySettings
    computed: ServedSnapshot | None = field(default=None, repr=False)  # the same at the instant when it was computed
    _entries: dict[int, Json] = field(default_factory=dict, repr=False)
    _answers: dict[Query, bytes] = field(default_factory=dict, repr=False)
    _short_answers: dict[Query, tuple[Short, ...]] = field(default_factory=dict, repr=False)

    @property
    def policy_slug(self) -> str:
        return str(self.meta["policy"])

    @cached_property
    def key(self) -> tuple[str, int, str]:
        """Names the snapshot at its instant, for caches: extended to a later one, it keeps its id, with other usage."""
        return self.policy_slug, self.snapshot_id, self.computed_at.isoformat()

    @property
    def revision(self) -> int:
        return int(self.meta["revision"])

    @cached_property
    def as_of(self) -> datetime:
        return datetime.fromisoformat(self.meta["as_of"])

    @property
    def algorithm(self) -> Json:
        """The algorithm with all its parameters."""
        return dict(self.meta["algorithm"])

    @property
    def watermarks(self) -> dict[str, int]:
        return dict(self.meta["watermarks"])

    @cached_property
    def corrections(self) -> dict[int, list[Json]]:
        """Adjustments of usage that are included in the numbers, by entry."""
        corrections: dict[int, list[Json]] = {}
        for each in self.meta.get("corrections", ()):
            at = self.tree.index_of_uid(UUID(each["entry"]))
            if at is not None:
                corrections.setdefault(at, []).append(each)
        return corrections

    @cached_property
    def local_only_entries(self) -> dict[int, LocalOnlyEntry]:
        """Entries whose children are compared by local instead of global usage, with the fallback that causes it."""
        return local_only_in(self.tree, [LocalOnlyEntry.from_json(each) for each in self.meta.get("fallbacks", ())])

    @cached_property
    def local_only_tops(self) -> tuple[LocalOnlyEntry, ...]:
        """The fallbacks that affect some entry, each once."""
        return tuple({fallback.uid: fallback for fallback in self.local_only_entries.values()}.values())

    @property
    def totals(self) -> Totals:
        """Usage of every entry and all below it, for hypothetical changes of it."""
        return Totals(self.tree, self.values.usage, self.values.group_usage)

    @property
    def n_ranked(self) -> int:
        return int(self.meta["n_ranked"])

    def age_s(self, at: datetime) -> float:
        """Seconds since the instant for which priorities were computed."""
        return max((at - self.as_of) / timedelta(seconds=1), 0.0)

    def head(self, at: datetime) -> Json:
        """Fields of an answer about the snapshot, before its results."""
        return {
            "policy": self.policy_slug,
            "snapshot": self.snapshot_id,
            "revision": self.revision,
            "as_of": instant(self.as_of),
            "computed_at": instant(self.computed_at),
            "age_s": round(self.age_s(at), 3),
            "algorithm": {key: value for key, value in self.algorithm.items() if key != "factor_from"},
        }

    def head_json(self, at: datetime) -> bytes:
        """`head` as JSON, without the enclosing braces."""
        before, after = self._head_around_age
        return b"%s%.3f%s" % (before, self.age_s(at), after)

    @cached_property
    def _head_around_age(self) -> tuple[bytes, bytes]:
        """JSON before and after the age, the only field that changes."""
        head = self.head(self.as_of)
        names = list(head)
        place = names.index("age_s")
        before = orjson.dumps({name: head[name] for name in names[:place]})[1:-1]
        after = orjson.dumps({name: head[name] for name in names[place + 1 :]})[1:-1]
        return before + b',"age_s":', b"," + after

    def subtree_mask(self, uid: UUID) -> Mask:
        """The entry and all below it; empty if the tree doesn't have it."""
        at = self.tree.index_of_uid(uid)
        return np.zeros(len(self.tree), dtype=np.bool_) if at is None else self.tree.subtree_mask(at)

    def lookup(
        self, queries: Sequence[Query], *, mask: Mask | None = None, names: AccountNames | None = None
    ) -> list[Json]:
        """Result objects of the look-up API by query; several entries of one account are sorted, the best first.

        mask: entries whose numbers the reader may see, None for all. names: accounts that the reader may name.
        """
        return [answer for _result, answers in self._answer(queries, mask, names) for answer in answers]

    def lookup_json(
        self, queries: Sequence[Query], mask: Mask | None = None, names: AccountNames | None = None
    ) -> bytes:
        """`lookup` as a JSON list, joined from cached JSON."""
        if mask is not None:
            return orjson.dumps(self.lookup(queries, mask=mask, names=names))
        answers = self._answers
        try:
            return b"[" + b",".join([answers[query] for query in queries]) + b"]"
        except KeyError:
            made = self._cache_answers(queries)
            return b"[" + b",".join([made[query] for query in queries]) + b"]"

    def lookup_columns(
        self, queries: Sequence[Query], *, mask: Mask | None = None, names: AccountNames | None = None
    ) -> tuple[list[str], list[float], list[int | None]]:
        """Accounts, factors and ranks of `lookup`, as lists of equal length."""
        if mask is None:
            rows = self._short_rows(queries)
        else:
            rows = list(map(_short, self.lookup(queries, mask=mask, names=names)))
        if not rows:
            return [], [], []
        accounts, factors, ranks = zip(*rows, strict=True)
        return list(accounts), list(factors), list(ranks)

    def _short_rows(self, queries: Sequence[Query]) -> list[Short]:
        known = self._short_answers
        try:
            return [row for query in queries for row in known[query]]
        except KeyError:
            rows_by_query = {query: kept for query in queries if (kept := known.get(query)) is not None}
            missing = [query for query in dict.fromkeys(queries) if query not in rows_by_query]
            for query, (result, answers) in zip(missing, self._answer(missing, None), strict=True):
                rows = rows_by_query[query] = tuple(map(_short, answers))
                if self._is_constant(query, result):
                    _keep(known, {query: rows})
            return [row for query in queries for row in rows_by_query[query]]

    def extended(self, valid_at: datetime, scale: float, computed_at: datetime) -> ServedSnapshot:
        """Its ranks at a later instant, until which all usage has decayed by a factor."""
        computed = self.computed or self
        values, meta = computed.values, computed.meta
        usage = values.usage * scale
        is_one_scope = values.group_usage is values.usage
        corrections = [{**each, "counted": each["counted"] * scale} for each in meta.get("corrections", ())]
        return replace(
            self,
            computed=computed,
            computed_at=computed_at,
            values=replace(values, usage=usage, group_usage=usage if is_one_scope else values.group_usage * scale),
            meta={
                **meta,
                "as_of": valid_at.astimezone(UTC).isoformat(),
                "unmapped_usage": meta["unmapped_usage"] * scale,
                **({"corrections": corrections} if corrections else {}),
            },
        )

    def clear_caches(self) -> None:
        """Empty the cache, for measurements."""
        self._answers.clear()
        self._entries.clear()

    def _cache_answers(self, queries: Sequence[Query]) -> dict[Query, bytes]:
        known = self._answers
        made = {query: kept for query in queries if (kept := known.get(query)) is not None}
        missing = [query for query in dict.fromkeys(queries) if query not in made]
        constant = self._plain_answers([query for query in missing if isinstance(query, str)])
        others = [query for query in missing if query not in constant]
        for query, (result, answers) in zip(others, self._answer(others, None), strict=True):
            made[query] = orjson.dumps(answers)[1:-1]
            if self._is_constant(query, result):
                constant[query] = made[query]
        _keep(known, constant)
        return made | constant

    def _plain_answers(self, users: Sequence[str]) -> dict[Query, bytes]:
        """Answers by columns for users who have one entry of their own; the others are left out."""
        entries = self.index.plain_entries(users)
        rows = np.flatnonzero(entries >= 0)
        rows = rows[~np.frombuffer(self.unranked_groups, np.bool_)[entries[rows]]]
        if not len(rows):
            return {}
        named = [users[row] for row in rows.tolist()]
        pairs = zip(texts_json(named), self.describe_columns(entries[rows].astype(np.int64)).json(), strict=True)
        pieces = [f'{{"account":{name},{about}}}' for name, about in pairs]
        return dict(zip(named, "\n".join(pieces).encode().split(b"\n"), strict=True))

    def _is_constant(self, query: Query, result: LookupResult) -> bool:
        """Whether the answer can't change while this snapshot is served."""
        if result.joins is not None:
            return not result.entries or self.new_users.is_known(result.entries[0], self._member_shares(result.joins))
        for entry in result.entries:
            is_outsider = self.unranked_groups[entry] and self.is_outsider(query, entry)
            if is_outsider and not self.new_users.is_known(entry, OUTSIDER_SHARES):
                return False
        return True

    def _member_shares(self, rule: int) -> float:
        return self.index.places.rules[rule].member_shares

    def _answer(
        self, queries: Sequence[Query], mask: Mask | None, names: AccountNames | None = None
    ) -> Iterator[tuple[LookupResult, list[Json]]]:
        """What each query leads to, and its answers."""
        mask = None if mask is None or (names is None and mask.all()) else mask
        results = self.index.find_many(queries)
        described = self._described({entry for result in results if result.joins is None for entry in result.entries})
        for query, result in zip(queries, results, strict=True):
            seen = mask if mask is None or names is None else names.limit(query, mask)
            yield result, self._results(query, result, seen, described)

    def _results(self, query: Query, result: LookupResult, mask: Mask | None, described: dict[int, Json]) -> list[Json]:
        if isinstance(query, str):
            about: Json = {"account": query}
        else:
            about = {"account": query.user or query.dn or query.group, **group_names(query.group, query.namespace)}
        if mask is not None:
            result = restrict_to(result, mask)
        if result.choices:
            offered = [
                {"namespace": name, "entry": self.index.path(entry)}
                for name, choice in result.choices
                for entry in choice.entries
            ]
            return [{**about, **self._without_entry("ambiguous"), **self.hints.ambiguous(offered)}]
        if not result.entries:
            hint = self.hints.unmapped(query, is_restricted=mask is not None)
            return [{**about, **self._without_entry("unmapped"), **hint}]
        if result.joins is not None:
            return [{**about, **self._new_user_json(result.entries[0], result.joins)}]
        results = [
            {
                **about,
                **(
                    self.of_outsider(entry, is_restricted=mask is not None)
                    if self.unranked_groups[entry] and self.is_outsider(query, entry)
                    else described[entry]
                ),
            }
            for entry in result.entries
        ]
        return sorted(results, key=_best_first) if len(results) > 1 else results

    def _without_entry(self, error: str) -> Json:
        return {"entry": None, "error": error, "factor": self.settings.fallback_factor}

    @cached_property
    def hints(self) -> Hints:
        return Hints(self.index, self.policy_slug)

    def _described(self, entries: set[int]) -> dict[int, Json]:
        """The JSON fields of these entries. A copy: another thread may empty the cache."""
        pieces = {entry: kept for entry in entries if (kept := self._entries.get(entry)) is not None}
        missing = np.array(sorted(entries - pieces.keys()), dtype=np.int64)
        if len(missing):
            made = dict(zip(missing.tolist(), self.describe(missing), strict=True))
            if len(made) <= _MOST_ENTRIES_CACHED:  # not of a bulk look-up, whose answers are cached as bytes
                if len(self._entries) + len(made) > _MOST_ENTRIES_CACHED:
                    self._entries.clear()
                self._entries.update(made)
            pieces |= made
        return pieces

    def describe(self, entries: I8) -> list[Json]:
        """The JSON fields of each entry in an answer."""
        described = []
        for path, factor, rank, of, priorities, vector, key in zip(*self.describe_columns(entries), strict=True):
            named = {"entry": path, "factor": factor, "rank": rank, "of": of}
            described.append({**named, "priorities": priorities, "vector": vector, "key": key})
        return described

    def describe_columns(self, entries: I8) -> EntryColumns:
        """`describe` by column."""
        values, n = self.values, len(entries)
        rows, depth_of = self.lineage(entries)
        decides = self.order.decides
        scalars = values.scalar[rows].astype(np.int64) if decides == "vector" else None
        priorities: list[list[Any]] = values.priority[rows].tolist()
        vectors: list[list[int]] | None = None if scalars is None else scalars.tolist()
        compared = self.components[rows].tolist() if decides == "deviations" else vectors or priorities
        if (depth_of < rows.shape[1]).any():
            for column in (priorities, compared):
                for numbers, depth in zip(column, depth_of.tolist(), strict=True):
                    del numbers[depth:]
        ranks: list[int | None] = values.rank[entries].tolist()
        factors: list[float | None] = values.factor[entries].tolist()
        of = [self.n_ranked] * n
        for row in np.flatnonzero(~values.has_rank[entries]).tolist():
            ranks[row] = None
        for row in np.flatnonzero(~values.has_factor[entries]).tolist():
            factors[row] = None
        for row in np.flatnonzero(~values.is_ranked[entries]).tolist():
            at: RankAndFactor = (ranks[row], of[row], factors[row])
            ranks[row], of[row], factors[row] = rank_among_leaves(self, int(entries[row]), compared[row], at)
        if scalars is not None and self.order.resolution:
            keys: list[str | None] = [*codecs.key_strings(scalars, depth_of, self.key_depth, self.order.resolution)]
        else:
            keys = [
                self.order.key(
                    vector=None if vectors is None else vectors[row],
                    priorities=compared[row],
                    depth=self.key_depth,
                    rank=ranks[row],
                    n_ranked=self.n_ranked,
                )
                for row in range(n)
            ]
        if None in factors:
            factors = [self.settings.fallback_factor if factor is None else factor for factor in factors]
        return EntryColumns(
            [self.tree.path(int(entries[0]))] if n == 1 else self.tree.paths(entries),
            factors,
            ranks,
            of,
            [[*map(json_number, row)] for row in priorities] if decides == "ranks" else priorities,
            [None] * n if vectors is None else vectors,
            keys,
        )

    def _entry_json(self, entry: int, numbers: EntryNumbers) -> Json:
        """The JSON of an entry; without a factor it gets the policy's fallback factor."""
        priorities, vector, rank, of, factor = numbers
        key = self.order.key(
            vector=vector, priorities=priorities, depth=self.key_depth, rank=rank, n_ranked=self.n_ranked
        )
        return {
            "entry": self.index.path(entry),
            "factor": self.settings.fallback_factor if factor is None else factor,
            "rank": rank,
            "of": of,
            "priorities": [json_number(value) for value in priorities] if self.order.has_own_order else priorities,
            "vector": vector,
            "key": key,
        }

    @cached_property
    def components(self) -> npt.NDArray[Any]:
        """The number by which each entry is compared, (n,); deviations that tie are one number."""
        if self.order.decides == "deviations":
            return class_deviations(prepare(self.tree.engine_tree()), self.values.priority)
        return self.order.components(self.values)

    @cached_property
    def order(self) -> Ordering:
        """How the entries compare."""
        return ordering_of(self.algorithm)

    @property
    def depth(self) -> int:
        """Number of levels in the vectors of ranked leaves."""
        return int(self.meta["depth"])

    @cached_property
    def key_depth(self) -> int:
        """Number of levels in each key: those of the longest vector served.

        Groups without ranked leaves may lie deeper than all leaves, and an *each* rule adds a level below a group.
        """
        contest, _, seat, _ = self.tree.engine_tree().competition
        if not any(rule.kind == "each" for rule in self.index.places.rules):
            return contest.depth
        highest = seat[self.tree.takes_members].max(initial=0)
        return max(contest.depth, int(np.searchsorted(contest.level_offsets, highest, side="right")))

    def lineage(self, entries: I8) -> tuple[I8, I8]:
        """The entries whose components make up each vector, root first, shape (m, depth), and each vector's length.

        Rows are padded with entry 0.
        """
        contest, entry_of, seat, _ = self.tree.engine_tree().competition
        at = seat[entries].copy()
        depth_of = np.searchsorted(contest.level_offsets, at, side="right") - 1
        rows = np.zeros((len(entries), int(depth_of.max(initial=0))), dtype=np.int64)
        for level in range(rows.shape[1], 0, -1):
            inside = depth_of >= level
            rows[inside, level - 1] = entry_of[at[inside]]
            at[inside] = contest.parent[at[inside]]
        return rows, depth_of

    @cached_property
    def leaf_lineage(self) -> tuple[I4, I4]:
        """`lineage` of all ranked leaves, in half the memory: it is kept."""
        rows, depth_of = self.lineage(np.flatnonzero(self.values.is_ranked))
        return rows.astype(np.int32), depth_of.astype(np.int32)

    @cached_property
    def own_columns(self) -> tuple[str, ...]:
        """Names of the algorithm's own columns that have a number for some entry."""
        columns = self.values.columns.items()
        return tuple(name for name, column in columns if column.exists is None or bool(column.exists.any()))

    @cached_property
    def actual_global(self) -> npt.NDArray[np.float64]:
        """Product of `actual` from the root to each entry; 0 where an entry doesn't compete."""
        contest, entry_of, seat, is_whole = self.tree.engine_tree().competition
        product = sweep.product_down(contest, self.values.actual[entry_of])
        spread: npt.NDArray[np.float64] = product if is_whole else np.where(self.values.competes, product[seat], 0.0)
        return spread

    @cached_property
    def new_users(self) -> NewUsers:
        """Priorities of users who would join by an *each* rule, computed on demand."""
        return NewUsers(self)

    @cached_property
    def unranked_groups(self) -> bytes:
        """For each entry whether it is a group whose members are ranked, and not itself."""
        is_group = self.tree.is_group | (self.tree.n_children > 0)
        return (is_group & ~self.values.is_ranked).tobytes()

    def is_outsider(self, query: Query, entry: int) -> bool:
        """Whether an account leads to a group in which it has no entry of its own, where members alone are ranked.

        Elsewhere a group has a vector, which is the place of the accounts that lead to it. A group that is itself named
        like the account is what was asked for, unless it is Slurm's account of a user.
        """
        if entry <= 0 or not self.unranked_groups[entry] or not self._ranks_members:
            return False
        user = query if isinstance(query, str) else query.user or query.dn
        if not user:
            return False
        is_of_group = not isinstance(query, str) and bool(query.group) and self.index.named.has_associations
        return is_of_group or self.tree.name[entry] not in (user, entry_name(user))

    def of_outsider(self, entry: int, *, is_restricted: bool) -> Json:
        """The answer for an outsider: the place of a member of the group without usage, with the reason."""
        hint = self.hints.without_own_entry("" if is_restricted else self.index.path(entry))
        return {**self._new_member_json(entry, OUTSIDER_SHARES), "key": None, "error": NO_OWN_ENTRY, "hint": hint}

    @property
    def _ranks_members(self) -> bool:
        """In Slurm's trees, and under an algorithm that ranks users alone."""
        return self.order.has_own_order or self.index.named.has_associations

    def _new_user_json(self, entry: int, rule: int) -> Json:
        return self._new_member_json(entry, self._member_shares(rule))

    def _new_member_json(self, entry: int, shares: float) -> Json:
        new = self.new_users.at(entry, shares)
        if new is None:
            unknown = self._entry_json(entry, EntryNumbers([], None, None, self.n_ranked, None))
            return {**unknown, "key": None, "provisional": True}
        return {**self._entry_json(entry, new), "provisional": True}

    @cached_property
    def leaf_components(self) -> npt.NDArray[Any]:
        """Padded components of all ranked leaves, shape (N, depth)."""
        rows, depth_of = self.leaf_lineage
        inside = np.arange(rows.shape[1]) < depth_of[:, None]
        return np.where(inside, self.components[rows], self.order.fill)


def serve(
    snapshot_id: int, computed_at: datetime, values: Values, index: LookupIndex, meta: Mapping[str, Any]
) -> ServedSnapshot:
    """A snapshot of the index's tree. meta: as it was computed, or as it was stored."""
    stored = orjson.loads(orjson.dumps(meta))
    settings = PolicySettings.from_stored(stored["settings"])
    return ServedSnapshot(snapshot_id, computed_at, index.tree, values, index, stored, settings)


def snapshot_key(policy: Policy, snapshot: ServedSnapshot) -> tuple[str, int, str]:
    """Cache key of what is computed from the snapshot of a policy: see `ServedSnapshot.key`."""
    return snapshot.key


def _keep(cache: dict[Query, Any], answers: Mapping[Query, Any]) -> None:
    if len(cache) + len(answers) > _MOST_ANSWERS_CACHED:
        cache.clear()
    if len(answers) <= _MOST_ANSWERS_CACHED:
        cache.update(answers)


def _best_first(result: Json) -> tuple[float, float]:
    rank = result["rank"]
    return inf if rank is None else float(rank), -float(result["factor"])


def _short(result: Json) -> Short:
    return result["account"], result["factor"], result.get("rank")


def instant(at: datetime) -> str:
    """RFC 3339 in UTC."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


__all__ = ["AccountQuery", "Query", "ServedSnapshot", "instant", "serve", "snapshot_key"]
