"""The formats that files of usage may have, by name."""

from __future__ import annotations

from apps.errors import Invalid
from apps.usage.collectors.apel import Apel
from apps.usage.collectors.base import Collector
from apps.usage.collectors.gridengine import GridEngine
from apps.usage.collectors.gridengine_queue import GridEngineQueue
from apps.usage.collectors.ndjson import Ndjson
from apps.usage.collectors.ogf_ur import OgfUsageRecord
from apps.usage.collectors.pbs import Pbs
from apps.usage.collectors.sacct import Sacct
from apps.usage.collectors.sacct_json import SacctJson
from apps.usage.collectors.slurm_queue import SlurmQueue
from apps.usage.collectors.swf import Swf

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
FORMATS: dict[str, Collector] = {collector.name: collector for collector in _COLLECTORS}


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
