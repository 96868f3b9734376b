"""Usage files whose import failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.notices.kinds.base import Finding, Kind, Sentence, SourcePlace, Term
from apps.runs.models import Run
from apps.usage.models import Import

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader


def find(place: SourcePlace) -> Iterable[Finding]:
    """Failed imports of the last days, unless the same file was imported afterwards. Trial imports don't count."""
    since_at = place.at - timedelta(days=place.terms["days"])
    imports = Import.objects.filter(source=place.source, dry_run=False)
    failed = imports.filter(run__state=Run.State.FAILED, run__finished_at__gte=since_at).select_related("run")
    for one in failed.order_by("-pk"):
        if imports.filter(pk__gt=one.pk, sha256=one.sha256, run__state=Run.State.SUCCEEDED).exists():
            continue
        facts = {
            "source": place.source.name,
            "import": one.pk,
            "file": one.file_name,
            "owner": one.owner_id,
            "error": one.run.error[:300],
        }
        yield Finding(str(one.pk), "bad", facts, person_id=one.owner_id)


def is_for(reader: Reader, notice: Notice) -> bool:
    """The uploader and administrators."""
    is_own = reader.user_id is not None and notice.facts.get("owner") == reader.user_id
    return reader.is_admin or (is_own and reader.actor.token is None)


def describe(facts: Mapping[str, Any]) -> Sentence:
    given = {"file": facts["file"], "source": facts["source"], "error": facts["error"]}
    text = _("The import of %(file)s into %(source)s failed: %(error)s") % given
    return Sentence("failed_import", {name: value for name, value in facts.items() if name != "owner"}, text)


KIND = Kind(
    name="failed_import",
    title=gettext_lazy("Failed imports"),
    watches="source",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="import",
    terms=(Term("days", gettext_lazy("Shown for"), gettext_lazy("days"), 7, 1, 366),),
)
