"""Texts in a blob, as this release and earlier ones stored them."""

from __future__ import annotations

import numpy as np
import pytest

from apps.core import blobs


@pytest.mark.parametrize(
    "texts", [[], [""], ["", ""], ["a", "", "Luleå"], ["x" * 255, "y"], ["x" * 256, ""], ["x" * 70_000]]
)
def test_texts_come_back(texts: list[str]) -> None:
    columns, meta = blobs.unpack(*blobs.pack({"names": texts, "n": np.arange(2)}, {"a": 1}))
    assert list(columns["names"]) == texts
    assert columns["n"].tolist() == [0, 1]
    assert meta == {"a": 1}
    assert set(columns) == {"names", "n"}


def test_texts_of_earlier_releases_are_read() -> None:
    stored = {"names.utf8": np.frombuffer("aLuleå".encode(), np.uint8), "names.ends": np.array([1, 1, 7])}
    columns, _meta = blobs.unpack(*blobs.pack(stored))
    assert list(columns["names"]) == ["a", "", "Luleå"]
