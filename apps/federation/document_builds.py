"""Runs that build what other sites read: documents of publications, and feeds. Reading itself builds nothing.

The schedule asks what is no longer current: because a policy, its mounts, usage or the mapping changed, the signing key
was replaced, or half of a document's lifetime is over. A publish asks at once.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from apps.core.errors import Invalid, NotFound
from apps.core.postgresql import consistent_read
from apps.federation.models import Publication, UsageFeed
from apps.federation.publishing import current_document, given_name, is_current
from apps.federation.usage_feeds.feed_build import build_feed, load_inputs
from apps.policies.models import Policy, Revision
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import enqueue_run

KIND = "federation_publish"
_WAIT_AFTER_FAILURE = timedelta(minutes=5)


def request_build(row: Publication | UsageFeed, *, at: datetime) -> Run:
    """Enqueue the build of a publication's document or of a feed, or return the pending run."""
    subject = _subject_of(row)
    kind = subject.partition(":")[0]
    return enqueue_run(kind=KIND, subject=subject, arguments={kind: row.pk}, at=at, max_attempts=3)


def request_due_builds(*, at: datetime) -> int:
    """Enqueue a build for each publication and feed that is no longer current; return their number.

    Idempotent, and safe concurrently. What failed is built again after five minutes.
    """
    if not given_name():
        return 0  # without a name nothing can be signed
    due: list[Publication | UsageFeed] = []
    due += [row for row in Publication.objects.select_related("policy").order_by("pk") if not is_current(row, at)]
    due += [row for row in UsageFeed.objects.order_by("pk") if not _is_built(row, at)]
    failed = Run.objects.filter(kind=KIND, state=Run.State.FAILED, finished_at__gt=at - _WAIT_AFTER_FAILURE)
    waiting = set(failed.values_list("subject", flat=True))
    requested = [row for row in due if _subject_of(row) not in waiting]
    for row in requested:
        request_build(row, at=at)
    return len(requested)


def request_builds_after_publish(policy: Policy, revision: Revision) -> None:
    """Enqueue the builds of a policy's publications, in the transaction of its publish."""
    if given_name():
        for publication in Publication.objects.filter(policy=policy).order_by("pk"):
            request_build(publication, at=revision.published_at)


def run_build(run: Run, lease: Lease) -> dict[str, Any]:
    """Handler of `federation_publish`. What is current is left as it is.

    A build is one transaction that locks its row, so a worker that lost its lease does no harm.
    """
    at = lease.clock()
    result: dict[str, Any] = {}
    try:
        if "feed" in run.arguments:
            result = {"number": build_feed(run.arguments["feed"], at=at).number}
        else:
            publication = Publication.objects.filter(pk=run.arguments["publication"]).first()
            if publication is not None:
                result = {"version": current_document(publication, at=at).document.version}
    except (NotFound, Invalid) as error:  # removed, archived or without a name meanwhile: readers are told so
        result = {"message": error.message}
    with lease.fenced():
        lease.finish(result, lease.clock())
    return result


def _subject_of(row: Publication | UsageFeed) -> str:
    return f"publication:{row.pk}" if isinstance(row, Publication) else f"feed:{row.pk}"


def _is_built(row: UsageFeed, at: datetime) -> bool:
    """Whether a feed is up to date, or can't be because its entry has left the tree."""
    try:
        with consistent_read() as is_outermost:
            inputs = load_inputs(row.pk, at=at, may_cache=is_outermost)
            return inputs.is_built and inputs.is_in_time(at)
    except NotFound:
        return True
