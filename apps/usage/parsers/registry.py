"""The formats that files of usage may have, by name."""

from __future__ import annotations

from apps.core.errors import Invalid
from apps.engine.installed import Installed
from apps.usage.parsers.apel import Apel
from apps.usage.parsers.base import Collector
from apps.usage.parsers.gridengine import GridEngine
from apps.usage.parsers.gridengine_queue import GridEngineQueue
from apps.usage.parsers.ogf_ur import OgfUsageRecord
from apps.usage.parsers.packages import brought_formats
from apps.usage.parsers.pbs import Pbs
from apps.usage.parsers.records_json import Ndjson
from apps.usage.parsers.sacct import Sacct
from apps.usage.parsers.sacct_json import SacctJson
from apps.usage.parsers.slurm_queue import SlurmQueue
from apps.usage.parsers.swf import Swf

AUTO = "auto"
# In the order in which they are shown and sniffed: each recognises only what no other does.
_COLLECTORS: tuple[Collector, ...] = (
    GridEngine(),
    GridEngineQueue(),
    Pbs(),
    Swf(),
    Sacct(),
    SacctJson(),
    SlurmQueue(),
    OgfUsageRecord(),
    Apel(),
    Ndjson(),
)
_OURS: dict[str, Collector] = {collector.name: collector for collector in _COLLECTORS}
_BROUGHT = brought_formats(tuple(_OURS))
FORMATS: dict[str, Collector] = {**_OURS, **_BROUGHT.found}


def format_of(name: str, head: bytes) -> Collector:
    """The collector of that name; for "auto", the first that recognises the beginning of the unpacked file.

    Raises:
        Invalid: there is none.
    """
    if name == AUTO:
        for collector in FORMATS.values():
            if collector.sniff(head):
                return collector
        known = ", ".join(collector.label for collector in FORMATS.values())
        raise Invalid(f"The file's format isn't recognised: name it. Known are {known}.", code="unknown_format")
    if name not in FORMATS:
        raise Invalid(f"There is no format {name!r}; there is auto, {', '.join(FORMATS)}.", code="unknown_format")
    return FORMATS[name]


def list_formats() -> list[Collector]:
    return list(FORMATS.values())


def installed_formats() -> Installed[Collector]:
    """Formats that other packages bring (entry points `fairshare.accounting_formats`), and what was refused."""
    return _BROUGHT
