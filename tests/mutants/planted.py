"""Twenty-one mistakes of the kind people make, each of which `make test` must notice: `make planted`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Planted:
    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]  # files, those that should notice first

    def text_in(self, tree: Path) -> str:
        text = (tree / self.path).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.path} has this {text.count(self.old)} times, not once:\n{self.old}")
        if gone := [test for test in self.tests if not (tree / test).exists()]:
            raise ValueError(f"{self.name}: no such tests: {', '.join(gone)}")
        return text.replace(self.old, self.new)


PLANTED = (
    Planted(
        name="operator sign",
        path="apps/engine/operators.py",
        old="off_target=lambda t, s: t - s,",
        new="off_target=lambda t, s: s - t,",
        tests=(
            "tests/engine/algorithms/test_algorithms.py",
            "tests/engine/test_vectors_of_papers.py",
        ),
    ),
    Planted(
        name="decay off by one bucket",
        path="apps/engine/decay.py",
        old="np.maximum(0.0, as_of_s - (start + BUCKET_S))",
        new="np.maximum(0.0, as_of_s - start)",
        tests=("tests/engine/test_decay.py",),
    ),
    Planted(
        name="correction counted beside what it corrects",
        path="apps/usage/records/record_rows.py",
        old="pgbinary.fetch_columns(_REMOVE_VERSIONS, [Int8Array(ids), by_run_id, at, keep_all]), sign=-1",
        new="pgbinary.fetch_columns(_REMOVE_VERSIONS, [Int8Array(ids), by_run_id, at, keep_all]), sign=0",
        tests=(
            "tests/usage/records/test_ingest.py",
            "tests/usage/records/test_exactly_once.py",
        ),
    ),
    Planted(
        name="missing scope check",
        path="apps/usage/authority.py",
        old="is_sender = token is not None and Token.Scope.USAGE_WRITE in token.scopes",
        new="is_sender = token is not None",
        tests=(
            "tests/usage/records/test_push.py",
            "tests/api/v1/usage/test_usage.py",
            "tests/api/v1/usage/test_sources.py",
        ),
    ),
    Planted(
        name="stale snapshot served",
        path="apps/priorities/serving/store.py",
        old="if known is not None and known.snapshot_id == snapshot_id:",
        new="if known is not None:",
        tests=("tests/priorities/serving/test_served_snapshot.py",),
    ),
    Planted(
        name="wrong rounding",
        path="apps/engine/codecs.py",
        old="np.floor(scaled, out=scaled)\n    is_balance",
        new="np.rint(scaled, out=scaled)\n    is_balance",
        tests=(
            "tests/engine/algorithms/test_algorithms.py",
            "tests/engine/test_vectors_of_papers.py",
        ),
    ),
    Planted(
        name="lost audit row",
        path="apps/accounts/services.py",
        old='audit.record(actor=actor, verb="token.revoked", at=at, policy_slug=token.policy_slug, subject=str(token))',
        new="return",
        tests=("tests/accounts/test_tokens.py",),
    ),
    Planted(
        name="lost CSRF",
        path="apps/dashboard/imports/views.py",
        old="@csrf_protect\ndef _upload(",
        new="def _upload(",
        tests=("tests/dashboard/imports/test_imports.py",),
    ),
    Planted(
        name="wrong share in export",
        path="apps/policies/formats/csv_table.py",
        old="json.dumps(plain_number(node.shares))",
        new='f"{node.shares:.6g}"',
        tests=(
            "tests/policies/formats/test_csv_table.py",
            "tests/policies/formats/test_every_format.py",
        ),
    ),
    Planted(
        name="missing escape in a template",
        path="templates/dashboard/tree/_rows.html",
        old='<a class="label" href="{{ line.url }}">{{ entry.name }}</a>',
        new='<a class="label" href="{{ line.url }}">{{ entry.name|safe }}</a>',
        tests=("tests/dashboard/shell/test_views.py",),
    ),
    Planted(
        name="undo leaves buckets",
        path="apps/usage/records/record_rows.py",
        old="    if len(change):\n        buckets.apply_delta(source_id",
        new="    if n_restored:\n        buckets.apply_delta(source_id",
        tests=("tests/usage/records/test_undo.py",),
    ),
    Planted(
        name="retention deletes a day too much",
        path="apps/usage/records/retention.py",
        old="(at - days * _DAY)",
        new="(at - (days - 1) * _DAY)",
        tests=("tests/usage/records/test_retention.py",),
    ),
    Planted(
        name="mount accepts an older version",
        path="apps/federation/documents/trust.py",
        old="if version < trusted.version:",
        new="if version < trusted.version - 1:",
        tests=("tests/federation/documents/test_trust.py",),
    ),
    Planted(
        name="revoked token accepted",
        path="apps/accounts/services.py",
        old="or valid_until is None or token.revoked_at or",
        new="or valid_until is None or",
        tests=("tests/accounts/test_tokens.py",),
    ),
    Planted(
        name="tie order",
        path="apps/engine/algorithms/slurm_fair_tree.py",
        old='"as-slurm": TieRules(merges_lists=False, passes_ties_down=True)',
        new='"as-slurm": TieRules(merges_lists=False, passes_ties_down=False)',
        tests=("tests/engine/algorithms/test_slurm_fair_tree.py",),
    ),
    Planted(
        name="target of siblings with little altogether",
        path="apps/engine/sweep.py",
        old="return divide_by_group(tree, values, sibling_sum(tree, values))",
        new="return divide_by_group(tree, values, np.maximum(sibling_sum(tree, values), 1.0))",
        tests=(
            "tests/engine/algorithms/test_algorithms.py",
            "tests/engine/algorithms/test_properties.py",
        ),
    ),
    Planted(
        name="suppression of small groups off by one",
        path="apps/priorities/visibility.py",
        old="np.asarray(n_active) >= smallest",
        new="np.asarray(n_active) >= smallest - 1",
        tests=("tests/privacy/test_suppression.py",),
    ),
    Planted(
        name="If-Match ignored",
        path="apps/policies/changesets/change_sets.py",
        old="if change_set.version != version:",
        new="if change_set.version < version:",
        tests=(
            "tests/api/v1/changesets/test_changesets.py",
            "tests/api/v1/changesets/test_reviews.py",
        ),
    ),
    Planted(
        name="retry counted twice",
        path="apps/notices/webhook_calls.py",
        old="delivery.attempts += 1",
        new="delivery.attempts += 2",
        tests=("tests/notices/test_webhooks.py",),
    ),
    Planted(
        name="wrong time zone of a day",
        path="apps/policies/allocations/records.py",
        old="datetime.combine(day, time(), tzinfo=zone)",
        new="datetime.combine(day, time(), tzinfo=UTC)",
        tests=("tests/policies/allocations/test_core_hours.py",),
    ),
    Planted(
        name="rule of a part takes accounts of others",
        path="apps/mapping/rules/resolver.py",
        old="return self.is_free(decided) or is_below(self.tree, decided[0].entry, reach)",
        new="return True",
        tests=("tests/security/test_account_moves.py",),
    ),
)
