"""Names of people in promises and in what these taught: which are of a person, and how pseudonyms replace them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db.models import Q

from apps.accounts.about_person import section
from apps.accounts.models import Account
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.starts.models import SourceWaits, StartPromise, StartState
from apps.contrib.starts.prediction import saved
from apps.contrib.starts.prediction.predictor import Predictor
from apps.core.blobs import CorruptBlob


def _promises_of(accounts: Sequence[Account]) -> Q:
    """Promises of jobs under the names of some accounts: those of a scheduler without a namespace are of any."""
    wanted = Q(pk__in=())
    for account in accounts:
        if account.user_name:
            in_namespace = Q(scheduler__namespace__in=("", account.namespace)) if account.namespace else Q()
            wanted |= in_namespace & Q(user=account.user_name)
    return wanted


PROMISES = section(
    "promises of when their jobs start",
    "scheduler__name job partition cpus limit_s submit_at made_at bounds_s outcomes left_at has_started",
    of_accounts=_promises_of,
)


def hide_names(names: Mapping[tuple[str, str], str]) -> None:
    """Replace user names by pseudonyms, in the caller's transaction. names: by namespace and user name.

    What was learned stays as it is otherwise, so it is still what the rows teach.
    """
    carried = Account.objects.filter(is_pseudonym=False, user_name__in={name for _namespace, name in names})
    elsewhere = set(carried.values_list("user_name", flat=True))
    nowhere = {key: pseudonym for key, pseudonym in names.items() if key[1] not in elsewhere}
    for scheduler in Scheduler.objects.select_for_update(no_key=True).order_by("pk"):
        pseudonyms = _names_in(scheduler.namespace, names if scheduler.namespace else nowhere)
        promises = StartPromise.objects.filter(scheduler=scheduler, user__in=list(pseudonyms))
        for user in promises.order_by("user").values_list("user", flat=True).distinct():
            StartPromise.objects.filter(scheduler=scheduler, user=user).update(user=pseudonyms[user])
        for state in StartState.objects.filter(scheduler=scheduler):
            state.data, state.digest = _renamed(state.data, state.digest, pseudonyms)
            state.opening, state.opening_digest = _renamed(state.opening, state.opening_digest, pseudonyms)
            state.save(update_fields=["data", "digest", "opening", "opening_digest"])
    learned = SourceWaits.objects.select_for_update(no_key=True, of=("self",)).select_related("source")
    for waits in learned.order_by("pk"):
        pseudonyms = _names_in(waits.source.namespace, names if waits.source.namespace else nowhere)
        waits.data, waits.digest = _renamed(waits.data, waits.digest, pseudonyms)
        waits.save(update_fields=["data", "digest"])


def _names_in(namespace: str, names: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """Pseudonyms by user name, of accounts whose jobs run in a namespace; an empty one is any."""
    return {
        name: pseudonym
        for (of_account, name), pseudonym in sorted(names.items())
        if not namespace or not of_account or of_account == namespace
    }


def _renamed(data: bytes | memoryview, digest: str, pseudonyms: Mapping[str, str]) -> tuple[bytes | memoryview, str]:
    """What was learned, under pseudonyms. What can't be read, such as that of an older release, may have the names, and
    is made again in any case: it goes.
    """
    try:
        predictor = saved.load(data, digest)
    except CorruptBlob:
        return b"", ""
    rename_users(predictor, pseudonyms)
    return saved.save(predictor)


def rename_users(predictor: Predictor, pseudonyms: Mapping[str, str]) -> None:
    for calibration in predictor.calibrations.values():
        calibration.rename_users(pseudonyms)
    for burst in [each for each in predictor.n_of_burst if each[1] in pseudonyms]:
        kind, user, hour = burst
        predictor.n_of_burst[kind, pseudonyms[user], hour] += predictor.n_of_burst.pop(burst)
