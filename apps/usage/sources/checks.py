"""System checks of the settings for outside programs and hosts, each with its remedy."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from apps.core.addresses import allowed_targets
from apps.usage.sources.command import SHELLS

_TARGET = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")


@register()
def check_collecting(app_configs: Sequence[AppConfig] | None, **_more: Any) -> list[CheckMessage]:
    return [*_targets(), *_programs(), *_folders()]


def _targets() -> Iterator[CheckMessage]:
    for entry in sorted(allowed_targets()):
        if not _TARGET.fullmatch(entry):
            message = f"FAIRSHARE_OUTBOUND_ALLOW holds {entry!r}, which is no single target."
            yield Error(
                message, hint="Write host:port or [IPv6]:port; networks and * are not allowed.", id="usage.E001"
            )
    file = settings.FAIRSHARE_OUTBOUND_CA_FILE
    if file and not os.access(file, os.R_OK):
        yield Error(f"FAIRSHARE_OUTBOUND_CA_FILE={file} can't be read.", id="usage.E002")


def _programs() -> Iterator[CheckMessage]:
    for path in settings.FAIRSHARE_COLLECT_COMMANDS:
        if not os.path.isabs(path) or Path(path).name in SHELLS:
            hint = "Write the whole path of a program that is no shell, such as /usr/bin/sacct."
            yield Error(f"FAIRSHARE_COLLECT_COMMANDS holds {path!r}.", hint=hint, id="usage.E003")


def _folders() -> Iterator[CheckMessage]:
    for path in settings.FAIRSHARE_COLLECT_FOLDERS:
        if not os.path.isabs(path) or Path(path).resolve() == Path("/"):
            hint = "Write the whole path of a folder that holds accounting and nothing secret."
            yield Error(f"FAIRSHARE_COLLECT_FOLDERS holds {path!r}.", hint=hint, id="usage.E004")
