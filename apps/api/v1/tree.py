"""A policy's tree, nested: the shares of a revision, and the numbers of the snapshot that goes with it."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps import clock
from apps.accounts.actor import Actor
from apps.api.authentication import POLICIES_READ, SELF_READ, Scopes, actor_of
from apps.api.v1.lists import asked
from apps.api.v1.moments import moment_of
from apps.engine import sweep
from apps.errors import TooLarge
from apps.policies.columns import TreeColumns
from apps.priorities.answers import ServedSnapshot
from apps.priorities.sight import Sight, sight_of

MOST_ENTRIES = 20_000
_COMPETING = ("target", "target_global", "actual", "priority")
_UNKNOWN: dict[str, Any] = dict.fromkeys((*_COMPETING, "rank", "factor"))


class TreeFilterSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(max_length=8_400, required=False, help_text="The root, or the token's subtree")
    depth = serializers.IntegerField(min_value=0, max_value=64, required=False, default=1)
    at = serializers.CharField(max_length=40, required=False, help_text="A revision's number, or a time")


class EntrySerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField()
    name = serializers.CharField()
    path = serializers.CharField()
    kind = serializers.CharField()
    shares = serializers.FloatField(allow_null=True, help_text="null: inherit")
    target = serializers.FloatField(allow_null=True)
    target_global = serializers.FloatField(allow_null=True)
    actual = serializers.FloatField(allow_null=True)
    priority = serializers.FloatField(allow_null=True)
    rank = serializers.IntegerField(allow_null=True)
    factor = serializers.FloatField(allow_null=True)
    scope = serializers.CharField(allow_blank=True)
    mount = serializers.CharField(allow_null=True)
    locked = serializers.BooleanField()
    n_children = serializers.IntegerField()
    hidden_children = serializers.IntegerField(help_text="Children that you may not see")
    children = serializers.ListField(child=serializers.DictField(), help_text="Entries of the same form, to `depth`")


class TreeSerializer(EntrySerializer):
    policy = serializers.CharField()
    revision = serializers.IntegerField()
    snapshot = serializers.IntegerField(allow_null=True)
    as_of = serializers.DateTimeField(allow_null=True)


class TreeView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, SELF_READ})}

    @extend_schema(operation_id="get_tree", parameters=[TreeFilterSerializer], responses=TreeSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """An entry with what is below it, `depth` levels deep."""
        given, actor = asked(TreeFilterSerializer, request), actor_of(request)
        sight = sight_of(policy_slug=policy, moment=moment_of(given.get("at")), at=clock.now(), actor=actor)
        top = sight.visibility.require(_top(sight.tree, given.get("path"), actor))
        return Response(nested(sight, top, given["depth"]))


class _Numbers:
    """The snapshot's numbers laid beside the entries of the tree; targets are the tree's own where the two differ."""

    def __init__(self, sight: Sight) -> None:
        self.snapshot, self.place = sight.snapshot, sight.place
        self.targets = None if self._is_same_tree(sight) else _targets(sight.tree)

    @staticmethod
    def _is_same_tree(sight: Sight) -> bool:
        return sight.snapshot is not None and sight.snapshot.tree is sight.tree

    def of(self, i: int) -> dict[str, Any]:
        j = int(self.place[i])
        found = dict(_UNKNOWN) if self.snapshot is None or j < 0 else _of_snapshot(self.snapshot, j)
        if self.targets is not None:
            found["target"], found["target_global"] = self.targets.get(i, (None, None))
        if i == 0:  # competes with nobody, and is the whole of everything
            found.update(target=1.0, target_global=1.0, actual=1.0 if self.snapshot else None)
        return found


def _of_snapshot(snapshot: ServedSnapshot, j: int) -> dict[str, Any]:
    values = snapshot.values
    competes, has_rank = bool(values.competes[j]), bool(values.has_rank[j])
    return {
        **{name: float(getattr(values, name)[j]) if competes else None for name in _COMPETING},
        "rank": int(values.rank[j]) if has_rank else None,
        "factor": float(values.factor[j]) if has_rank else None,
    }


def _targets(tree: TreeColumns) -> dict[int, tuple[float, float]]:
    """Of those that compete, after *inherit* has dissolved."""
    contest, entry_of, _, _ = tree.engine_tree().competition
    target = sweep.normalise_siblings(contest, contest.shares)
    whole = sweep.product_down(contest, target)
    return dict(zip(entry_of.tolist(), zip(target.tolist(), whole.tolist(), strict=True), strict=True))


def _top(tree: TreeColumns, path: str | None, actor: Actor) -> int | None:
    if path is None and actor.token is not None and actor.token.subtree_uid is not None:
        return tree.index_of_uid(actor.token.subtree_uid)
    return tree.index_of_path(path or "/")


def nested(sight: Sight, top: int, depth: int) -> dict[str, Any]:
    """The entry with its visible descendants, and which state of affairs this is."""
    rows = _rows(sight, top, depth)
    numbers = _Numbers(sight)
    found = {i: _entry(sight, numbers, i) for i in rows}
    for i in rows[1:]:
        found[int(sight.tree.parent[i])]["children"].append(found[i])
    snapshot = sight.snapshot
    return {
        "policy": sight.policy.slug,
        "revision": sight.tree.number,
        "snapshot": snapshot.snapshot_id if snapshot else None,
        "as_of": snapshot.as_of if snapshot else None,
        **found[top],
    }


def _rows(sight: Sight, top: int, depth: int) -> list[int]:
    """Visible entries, parents first."""
    rows: list[int] = []
    for level in sight.tree.subtree(top)[: depth + 1]:
        rows += [i for i in level if sight.visibility.may_see(i)]
        if len(rows) > MOST_ENTRIES:
            message = f"That is more than {MOST_ENTRIES:,} entries: ask for less depth, or for a path further down."
            raise TooLarge(message)
    return rows


def _entry(sight: Sight, numbers: _Numbers, i: int) -> dict[str, Any]:
    node = sight.tree.node(i)
    children = sight.tree.children(i)
    visible = int(sight.visibility.mask[children.start : children.stop].sum())
    return {
        "uid": node.uid,
        "name": node.name,
        "path": sight.tree.path(i),
        "kind": node.kind,
        "shares": node.shares,
        **numbers.of(i),
        "scope": node.scope,
        "mount": None,
        "locked": node.locked,
        "n_children": visible,
        "hidden_children": len(children) - visible,
        "children": [],
    }
