"""The formats that files of usage may have, by name."""

from __future__ import annotations

from apps.errors import Invalid
from apps.usage.collectors.base import Collector
from apps.usage.collectors.swf import Swf

AUTO = "auto"
FORMATS: dict[str, Collector] = {collector.name: collector for collector in (Swf(),)}


def format_of(name: str, head: bytes) -> Collector:
    """The collector of that name; for "auto", the first that recognises the beginning of the unpacked file.

    Raises:
        Invalid: there is none.
    """
    if name == AUTO:
        for collector in FORMATS.values():
            if collector.sniff(head):
                return collector
        raise Invalid("The file's format isn't recognised: name it.", code="unknown_format")
    if name not in FORMATS:
        raise Invalid(f"There is no format {name!r}; there is auto, {', '.join(FORMATS)}.", code="unknown_format")
    return FORMATS[name]


def list_formats() -> list[Collector]:
    return list(FORMATS.values())
