"""An example: users in the order of what they used for each of their shares, wherever in the tree they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO

import numpy as np

from apps.engine.algorithms.base import Column, Components, PriorityResult, Ranking, build_result
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.operators import Operator, Properties
from apps.engine.parameters import Parameter, Settings, number
from apps.usage.parsers.base import FieldNote, Parsed, Reading, RecordBatch, RecordRow, Rejection


class LeastUsed:
    """One number for every leaf, and no levels: what it used divided by its target of the whole."""

    name = "least-used"
    label = "Least used"
    formula = "rank by usage / target of the whole, least first"
    component = "1 / (1 + usage / (target of the whole · unit)) − 1/2"
    reference = "An example"
    parameters: tuple[Parameter, ...] = (number("unit", "Unit of usage", 3600.0, 1.0, 1e9),)
    fields: tuple[str, ...] = ("used_per_share", "rank", "factor")
    takes_inherit = False

    def properties(self, settings: Settings) -> Properties:
        """Every entry is compared with every other one."""
        return Properties(
            isolation=False, proportional_redistribution=False, scale_invariance=False, boundaries=True, sign=False
        )

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Ranks and factors of leaves; `used_per_share` is infinite where a leaf has usage but no share."""
        tree, share = prepared.tree, prepared.target_global
        with np.errstate(divide="ignore", invalid="ignore"):
            per_share = np.where(compared.usage > 0, compared.usage / share, np.where(share > 0, 0.0, np.inf))
            priority = 1.0 / (1.0 + per_share / settings["unit"]) - 0.5
        leaf = tree.is_ranked
        ordered = np.sort(per_share[leaf])
        ahead = np.searchsorted(ordered, per_share)
        n_leaves = max(prepared.n_ranked, 1)
        ranking = Ranking(
            rank=np.where(leaf, ahead + 1, 0).astype(np.int64),
            factor=np.where(leaf, 1.0 - ahead / n_leaves, 0.0).clip(0.0, 1.0),
            has_rank=leaf,
            has_factor=leaf,
            is_ranked=leaf,
            n_ranked=prepared.n_ranked,
        )
        columns = {"used_per_share": Column(per_share)}
        return build_result(prepared, compared, settings, Components(compared.actual, priority), ranking, columns)


LEAST_USED = LeastUsed()

HALFWAY = Operator(
    name="halfway",
    label="Halfway",
    formula="(t − s)/2",
    reference="An example",
    properties=Properties(True, False, True, False),
    off_target=lambda t, s: (t - s) / 2.0,
)


class Minutes:
    """Lines of a job: id, user, group, end (seconds since 1970), minutes, cores."""

    name = "minutes"
    label = "Minutes"
    extensions: tuple[str, ...] = (".minutes",)
    reference = "An example"
    sample = "# minutes\n17 alice physics 1795000000 90 4\n18 bob biology 1795003600 10 1\n"
    fields: tuple[FieldNote, ...] = (
        FieldNote("minutes", "start: that long before the end"),
        FieldNote("cores", "cpus"),
    )
    needs_zone = False
    is_listing = False

    def sniff(self, head: bytes) -> bool:
        return head.startswith(b"# minutes\n")

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """One piece of the whole file: `resume` is never given, because no piece names a place to continue from."""
        rows, lines, rejections = [], [], []
        for at, line in enumerate(stream, 1):
            if line.startswith(b"#"):
                continue
            try:
                job, user, group, end, minutes, cores = line.decode().split()
                end_at = datetime.fromtimestamp(int(end), UTC)
                start_at = end_at - timedelta(minutes=float(minutes))
                rows.append(RecordRow(job, user, group, start_at=start_at, end_at=end_at, cpus=float(cores)))
                lines.append(at)
            except ValueError as error:
                rejections.append(Rejection(at, "bad_line", str(error), line[:60].decode(errors="replace")))
        yield Parsed(RecordBatch.from_rows(rows, lines), rejections, n_lines=len(rows) + len(rejections))


MINUTES = Minutes()
