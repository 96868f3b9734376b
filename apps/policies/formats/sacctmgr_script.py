"""The format of `sacctmgr` scripts: reads a dump or commands, and writes commands."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext_noop

from apps.policies.formats import sacctmgr, sacctmgr_commands, slurm_tree
from apps.policies.formats.base import Format, LastImport
from apps.policies.formats.sacctmgr_against import script_against
from apps.policies.formats.slurm_tree import fit
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns


def _write_remembered(tree: TreeColumns, last: LastImport) -> Iterator[str]:
    return slurm_tree.write(fit(tree), PolicySettings(), last.cluster)


FORMAT = Format(
    name="sacctmgr-script",
    label=gettext_noop("Slurm sacctmgr commands"),
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
    looks_like=sacctmgr_commands.looks_like,
    fit=fit,
    against=script_against,
    remembers=sacctmgr.remembers,
    write_remembered=_write_remembered,
    has_associations=True,
    maps_by=sacctmgr.FORMAT.maps_by,
    needs_cluster=True,
)
