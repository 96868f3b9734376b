"""Guides to the pages of this plug-in."""

from __future__ import annotations

from apps.core.plugins import Addition
from apps.web.links.guides import Guide

GUIDES: dict[str, Addition[Guide]] = {
    "First steps": Addition(
        Guide(
            "First steps",
            "setup setup-tree setup-slurmrestd setup-log setup-source setup-zone setup-confirm setup-again"
            " setup-accounts setup-publish setup-discard",
            (("first steps", "first-steps.md"), ("Slurm recipe", "recipe-slurm.md")),
        ),
        after="Home",
    ),
}
