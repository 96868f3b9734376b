"""Figure 1 of the text on Slurm's depth-oblivious factor, from the engine's exponent."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from apps.engine.analysis.properties import exponent_curve, exponent_of
from docsite.papers.drawing import Axis, curves
from docsite.papers.figure import Figure


def figures() -> Iterator[Figure]:
    ratio, exponent = (axis.tolist() for axis in exponent_curve())
    at = {ratio: float(exponent_of(np.array([ratio]))[0]) for ratio in (0.5, 1.0, 2.0)}
    x = Axis(min(ratio), max(ratio), [(value, f"{value:g}") for value in (min(ratio), 1.0, max(ratio))])
    y = Axis(0.0, 1.0, [(0.0, "0"), (0.5, "0.5"), (1.0, "1")])
    yield Figure(
        "depth-oblivious",
        "1",
        "the exponent k",
        "k is 1 where the account above is on target, and falls towards 0 the further it is from it.",
        f"{', '.join(f'k = {k:.4f} at R = {ratio:g}' for ratio, k in at.items())}.",
        "`manage.py analyse exponent`",
        curves("Exponent k by R of the account above", {"k": list(zip(ratio, exponent, strict=True))}, x, y),
    )
