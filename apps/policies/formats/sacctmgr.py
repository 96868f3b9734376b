"""Slurm's account tree as `sacctmgr dump` writes it and `sacctmgr load` reads it; scripts are read here too."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from apps.policies.files.document import plain
from apps.policies.files.parsed_document import Declared
from apps.policies.formats import slurm_tree
from apps.policies.formats.base import Format, Remembered
from apps.policies.formats.sacctmgr_against import dump_against
from apps.policies.formats.sacctmgr_dump import dump_of, read_dump
from apps.policies.formats.sacctmgr_kept import write_kept
from apps.policies.formats.slurm_tree import ROOT, USE_PARENT, cluster_lines, fit
from apps.policies.formats.whole_shares import plain_word
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns


def read(text: str) -> Declared:
    """A dump, or a script of commands, by its first line."""
    return slurm_tree.read(text) if slurm_tree.looks_like(text) else read_dump(text)


def write(tree: TreeColumns, settings: PolicySettings, cluster: str = "") -> Iterator[str]:
    """The tree is a fitted one."""
    name, first = cluster_lines(tree, cluster)
    yield first
    yield f"Cluster - '{name}':Fairshare=1\n"
    shares, inherit, accounts = tree.shares.tolist(), tree.inherit.tolist(), tree.is_group.tolist()
    for parent in np.flatnonzero(tree.n_children).tolist():
        yield f"Parent - '{tree.name[parent] if parent else ROOT}'\n"
        for i in sorted(tree.listed_children(parent), key=lambda i: accounts[i]):
            fairshare = USE_PARENT if inherit[i] else plain(shares[i])
            if accounts[i]:
                yield f"Account - '{tree.name[i]}':Description='{tree.name[i]}':Fairshare={fairshare}\n"
            else:
                default = tree.name[parent] if parent else ROOT
                yield f"User - '{tree.name[i]}':DefaultAccount='{default}':Fairshare={fairshare}\n"


def remembers(text: str, declared: Declared) -> Remembered | None:
    """A dump whole; of a script the cluster's name, if it has one."""
    cluster = declared.policy if plain_word(declared.policy) == declared.policy else ""
    if slurm_tree.looks_like(text):
        return Remembered(cluster) if cluster else None
    return Remembered(cluster, text if cluster else "")


def _write_remembered(tree: TreeColumns, last: Remembered) -> Iterator[str]:
    if last.text and last.tree is not None:
        return write_kept(tree, dump_of(last.text), last.tree, last.cluster)
    return write(fit(tree), PolicySettings(), last.cluster)


def _looks_like(text: str) -> bool:
    return bool(re.search(r"^(# )?Cluster - '", text, re.MULTILINE))


FORMAT = Format(
    name="sacctmgr",
    label="Slurm sacctmgr",
    reference="https://slurm.schedmd.com/sacctmgr.html#SECTION_FLAT-FILE-DUMP-AND-LOAD",
    sample="""\
Cluster - 'demo':Fairshare=1:QOS='normal'
Parent - 'root'
Account - 'physics':Description='physics dept':Organization='science':Fairshare=60
Parent - 'physics'
User - 'alice':DefaultAccount='physics':Fairshare=2
User - 'bob':DefaultAccount='physics':Fairshare=2147483647
""",
    media_type="text/x-sacctmgr",
    suffix=".cfg",
    carries=("name", "user or group", "shares", "inherit"),
    read=read,
    write=write,
    looks_like=_looks_like,
    fit=fit,
    against=dump_against,
    remembers=remembers,
    write_remembered=_write_remembered,
    has_associations=True,
)
