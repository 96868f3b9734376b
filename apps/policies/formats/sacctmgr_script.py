"""Slurm's account tree as a script: the format is read as a dump or as commands, and written as commands."""

from __future__ import annotations

from apps.policies.formats import sacctmgr, slurm_tree
from apps.policies.formats.base import Format
from apps.policies.formats.slurm_tree import fit

FORMAT = Format(
    name="sacctmgr-script",
    label="Slurm sacctmgr commands",
    reference="https://slurm.schedmd.com/sacctmgr.html",
    sample="""\
add account Name=physics Fairshare=60
add user Name=alice Account=physics Fairshare=2
add user Name=bob Account=physics Fairshare=parent
""",
    media_type="text/x-sacctmgr-script",
    suffix=".script",
    carries=sacctmgr.FORMAT.carries,
    read=sacctmgr.read,
    write=slurm_tree.write,
    looks_like=slurm_tree.looks_like,
    fit=fit,
    write_against=sacctmgr.write_script_against,
    has_associations=True,
)
