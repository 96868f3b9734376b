"""A small change of the product that breaks what a claim states."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mutation:
    """`old` is once in the file of this path, and is replaced by `new`."""

    path: str
    old: str
    new: str

    def text(self, folder: Path) -> str:
        """Of the changed file; ValueError if `old` isn't there exactly once."""
        text = (folder / self.path).read_text(encoding="utf-8")
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.path}: {count} times, and not once: {self.old!r}")
        return text.replace(self.old, self.new)
