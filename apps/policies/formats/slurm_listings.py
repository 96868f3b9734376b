"""Listings of Slurm that people take for a tree, and the command that prints the tree."""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Za-z%]+")
_TREE = "write the tree by: sacctmgr dump CLUSTER file=FILE"


def tree_hint(text: str) -> str:
    """What a text is if it is such a listing, and what to do; "" for any other text."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    words = {word.lower() for word in _WORD.findall(first[:1000])}
    if {"account", "user", "rawshares"} <= words:
        return f"It is the output of sshare, whose tree lacks what Slurm stores: {_TREE}."
    is_of_associations = {"account", "user"} <= words and words & {"share", "fairshare", "parentname", "defaultqos"}
    if is_of_associations and not {"path", "jobid", "jobidraw"} & words and "-" not in first.split("=")[0][:20]:
        return f"It is the output of sacctmgr show, which isn't a tree of its own: {_TREE}."
    return ""
