"""Collections as pages show them."""

from __future__ import annotations

from apps.accounts.actor import Actor
from apps.runs.models import Run
from apps.usage.models import Source
from apps.usage.selectors import get_source
from apps.usage.sources.schedule import KIND, subject_of


def newest_collection(*, source: Source, actor: Actor) -> Run | None:
    """Everybody who may see a source may see whether its collection works."""
    get_source(slug=source.slug, actor=actor)
    return Run.objects.filter(kind=KIND, subject=subject_of(source)).order_by("-id").first()
