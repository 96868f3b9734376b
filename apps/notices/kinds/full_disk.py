"""A full disk of the service: imports, recomputes and publishing fail until there is space."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.core.disk_space import full_disks
from apps.notices.kinds.base import Finding, Kind, Sentence, SitePlace

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader


def find(_place: SitePlace) -> Iterable[Finding]:
    """One finding per path, as the worker sees it."""
    for disk in full_disks():
        yield Finding(disk.path, "bad", {"path": disk.path, "free_mb": disk.free_mb})


def is_for(reader: Reader, _notice: Notice) -> bool:
    """Administrators, because of paths."""
    return reader.is_admin


def describe(facts: Mapping[str, Any]) -> Sentence:
    text = _("The disk of %(path)s has %(free_mb)s MB left. Imports and recomputes fail when it is full.")
    return Sentence("full_disk", facts, text % facts)


KIND = Kind(
    name="full_disk",
    title=gettext_lazy("Full disks"),
    about=gettext_lazy("A disk of the service has less than 100 MB free, or less than 1 % and less than 1 GB."),
    watches="site",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="site",
)
