from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from apps.accounts.account_keys import pseudonym_of
from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import Account, AuditEvent
from apps.core.errors import Invalid, NotAllowed, NotFound
from apps.mapping.models import Attachment
from apps.priorities.pseudonyms import Hidden, pseudonymise_idle, pseudonymise_user
from apps.priorities.serving import store
from apps.usage.models import Bucket, Record, Source
from apps.usage.sources.open_listings import close_silent_jobs
from tests.priority_site import AS_OF, Site

pytestmark = pytest.mark.django_db
LONG_AGO_H = 400 * 24.0


def hide(days: int = 365, *, dry_run: bool = False) -> Hidden:
    return pseudonymise_idle(idle_days=days, reason="They left.", dry_run=dry_run, at=AS_OF, actor=COMMAND)


@pytest.fixture
def left(site: Site) -> Site:
    """Dan of biology and an unmapped user ran their last jobs over a year ago."""
    site.job("dan", "biology", 7, ago_h=LONG_AGO_H)
    site.job("zoe", "geology", 5, ago_h=LONG_AGO_H)
    return site


def test_pseudonymising_removes_names_and_keeps_numbers(left: Site) -> None:
    left.recompute()
    before = {one["account"]: one for one in store.newest("grid").lookup(["alice", "bob", "carol", "dan"])}
    assert hide() == Hidden(n_accounts=2, n_places=1)
    names = set(Account.objects.values_list("user_name", flat=True))
    assert names == {"alice", "bob", "carol", pseudonym_of("dan", "c1"), pseudonym_of("zoe", "c1")}
    assert set(Account.objects.filter(is_pseudonym=True).values_list("group_name", flat=True)) == {"biology", "geology"}
    left.recompute()
    after = {one["account"]: one for one in store.newest("grid").lookup(["alice", "bob", "carol", "dan"])}
    for name in ("alice", "bob", "carol", "dan"):
        assert (after[name]["rank"], after[name]["factor"]) == (before[name]["rank"], before[name]["factor"])
    place = Attachment.objects.get()
    assert place.account.user_name == pseudonym_of("dan", "c1")
    event = AuditEvent.objects.get(verb="accounts.pseudonymised")
    assert "dan" not in str(event.details)
    assert event.reason == "They left."


def test_a_returning_user_is_recognised_and_not_counted_twice(left: Site) -> None:
    hide()
    n_accounts, core_s = Account.objects.count(), sum(Bucket.objects.values_list("cpu_s", flat=True))
    left.job("dan", "biology", 7, ago_h=LONG_AGO_H)  # the very same record again
    assert (Account.objects.count(), Record.objects.filter(account__is_pseudonym=True).count()) == (n_accounts, 2)
    assert sum(Bucket.objects.values_list("cpu_s", flat=True)) == core_s
    left.job("dan", "biology", 2)
    assert Account.objects.count() == n_accounts
    assert Record.objects.filter(account__user_name=pseudonym_of("dan", "c1")).count() == 2
    left.job("dan", "physics", 2)  # with another group it is another account, and a new one
    assert Account.objects.filter(user_name="dan").count() == 1


def test_running_jobs_and_recent_ones_keep_their_names(left: Site) -> None:
    left.running("dan", "biology", cpus=1, since_h=2)
    assert hide(dry_run=True) == Hidden(n_accounts=1, n_places=0, n_held_back=1)
    assert Account.objects.filter(user_name="dan", is_pseudonym=False).exists()
    assert hide(days=500) == Hidden(0, 0)
    assert not AuditEvent.objects.filter(verb="accounts.pseudonymised").exists()


def test_only_administrators_do_it_with_a_reason_and_a_sensible_age(left: Site, as_alice: Actor) -> None:
    with pytest.raises(NotAllowed):
        pseudonymise_idle(idle_days=365, reason="r", at=AS_OF, actor=as_alice)
    with pytest.raises(Invalid):
        pseudonymise_idle(idle_days=365, reason=" ", at=AS_OF, actor=COMMAND)
    with pytest.raises(Invalid):
        pseudonymise_idle(idle_days=0, reason="r", at=AS_OF, actor=COMMAND)
    assert not Account.objects.filter(is_pseudonym=True).exists()


def test_the_command_reports_its_result(left: Site) -> None:
    out = StringIO()
    call_command("pseudonymise", "--idle-days", "365", "--reason", "They left.", "--namespace", "c1", stdout=out)
    message = "2 accounts without usage for 365 days have pseudonyms now; places in policies written down: 1"
    assert out.getvalue().strip() == message


def test_one_person_can_be_pseudonymised_regardless_of_recent_jobs(left: Site) -> None:
    left.job("dan", "physics", 1, ago_h=2.0)
    out = StringIO()
    call_command("pseudonymise", "--user", "dan", "--reason", "They asked.", stdout=out)
    assert out.getvalue().startswith("2 accounts of dan have pseudonyms now")
    names = set(Account.objects.values_list("user_name", flat=True))
    assert names == {"alice", "bob", "carol", "zoe", pseudonym_of("dan", "c1")}
    event = AuditEvent.objects.get(verb="accounts.pseudonymised")
    assert "dan" not in f"{event.subject}{event.details}"
    with pytest.raises(NotFound):
        pseudonymise_user(user_name="dan", reason="r", at=AS_OF, actor=COMMAND)
    with pytest.raises(NotFound):
        pseudonymise_user(user_name="", reason="r", at=AS_OF, actor=COMMAND)


def test_open_jobs_of_a_silent_source_stop_blocking_after_a_set_time(left: Site, settings: Any) -> None:
    left.running("dan", "biology", cpus=1, since_h=21 * 24)
    source = Source.objects.get(slug=Record.objects.get(state="running").source.slug)
    received_at = AS_OF - timedelta(days=20)
    Source.objects.update(last_received_at=received_at)
    Record.objects.filter(state="running").update(seen_at=received_at)
    out = StringIO()
    call_command("pseudonymise", "--idle-days", "365", "--reason", "r", "--dry-run", stdout=out)
    assert "1 more keep their names" in out.getvalue()
    settings.FAIRSHARE_CLOSE_OPEN_DAYS = 21
    assert close_silent_jobs(at=AS_OF) == 0
    settings.FAIRSHARE_CLOSE_OPEN_DAYS = 19
    assert close_silent_jobs(at=AS_OF) == 1
    assert close_silent_jobs(at=AS_OF) == 0
    source.refresh_from_db()
    assert source.last_received_at == received_at, "closing is no contact"
    closed = Record.objects.get(note="vanished")
    assert (closed.state, closed.end_at) == ("finished", received_at), "it ends when it was last listed"
    event = AuditEvent.objects.get(verb="usage.open_jobs_closed")
    assert (event.subject, event.details) == (source.slug, {"jobs": 1, "days": 19})
    assert not Record.objects.filter(state__in=["running", "pending"]).exists()
    assert hide(days=500, dry_run=True).n_held_back == 0


def test_a_site_can_keep_open_jobs_of_silent_sources(left: Site, settings: Any) -> None:
    left.running("dan", "biology", cpus=1, since_h=2001 * 24)
    Source.objects.update(last_received_at=AS_OF - timedelta(days=2000))
    Record.objects.filter(state="running").update(seen_at=AS_OF - timedelta(days=2000))
    settings.FAIRSHARE_CLOSE_OPEN_DAYS = 0
    assert close_silent_jobs(at=AS_OF) == 0
