"""Trained trees as one blob that names what they were trained on, and back, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from apps.contrib.starts.prediction.queue_facts import FACTS, LAYOUT
from apps.contrib.starts.prediction.trees import BINS, DEPTH, N_TREES, Trees
from apps.core.blobs import CorruptBlob, pack, unpack

_FORMAT = 1  # of the columns, and of how trees are trained
_NARROW = {"edges": np.float64, "start": np.float64, "fact": np.int8, "bin": np.uint8, "value": np.float64}
_WIDE = {"fact": np.int64, "bin": np.int64}
assert len(FACTS) < 127  # noqa: S101 - of an int8
assert BINS < 255  # noqa: S101 - of a uint8


def save_trees(trees: Trees, inputs: dict[str, Any]) -> tuple[bytes, str]:
    """The blob and its digest. inputs: the scheduler and its rows, as JSON has them."""
    columns = {name: column.astype(_NARROW[name]) for name, column in trees._asdict().items()}
    return pack(columns, _meta(inputs))


def load_trees(data: bytes | memoryview, digest: str, inputs: dict[str, Any]) -> Trees:
    """The trees of a blob.

    Raises:
        CorruptBlob: the bytes don't have that digest, or are of another format, other facts or other inputs.
    """
    columns, meta = unpack(data, digest)
    if meta != _meta(inputs):
        raise CorruptBlob("They are of another format, or of other rows.")
    return Trees(**{name: column.astype(_WIDE.get(name, column.dtype)) for name, column in columns.items()})


def _meta(inputs: dict[str, Any]) -> dict[str, Any]:
    """With what decides how trees are trained, and what their facts mean."""
    return {"format": _FORMAT, "layout": LAYOUT, "trees": [N_TREES, DEPTH, BINS], "inputs": inputs}
