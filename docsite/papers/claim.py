"""A claim of a paper, in our words, and a paper with all of its claims; tests name them by their marks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """place: section, equation or figure of the paper. where: page, command or file.

    deviation: in words, where numbers alone don't say it. untested: why it has no test.
    """

    place: str
    text: str
    where: str
    deviation: str = ""
    untested: str = ""


@dataclass(frozen=True, slots=True)
class Paper:
    """One source. name: the folder-like name that figures and headings have."""

    name: str
    title: str
    claims: Mapping[str, Claim]
