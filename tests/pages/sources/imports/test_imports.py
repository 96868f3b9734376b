"""Usage sources, and a file on its way through dry run, decision and import."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.actor import COMMAND, SYSTEM, Actor
from apps.accounts.models import User
from apps.core import clock
from apps.policies.models import Policy
from apps.policies.services import change_settings, make_policy
from apps.priorities.selectors.import_effect import get_import_effect
from apps.priorities.sentences.numbers import NBSP
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage import services
from apps.usage.models import Import, Record, RejectedLine, Source
from apps.web.shell import presentation
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read, text_of
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
SOURCES, UPLOAD = "/usage/sources/", "/usage/import/"
HEADER = "; UnixStartTime: 1700000000\n"


@pytest.fixture
def admin() -> User:
    return User.objects.create_superuser("alice")


@pytest.fixture
def bob() -> User:
    return User.objects.create_user("bob")


@pytest.fixture
def as_admin(client: Client, admin: User) -> Client:
    sign_in(client, admin)
    return client


@pytest.fixture
def as_bob(bob: User) -> Client:
    return sign_in(Client(), bob)


@pytest.fixture
def source() -> Source:
    return services.make_source(services.NewSource(slug="abisko", name="abisko log"), at=clock.now(), actor=SYSTEM)


def job(number: int, *, run_s: object = 600, user: int = 1) -> str:
    return f"{number} {number * 10} 0 {run_s} 8 -1 -1 8 3600 -1 1 {user} 1 -1 1 -1 -1 -1\n"


def log(n_good: int = 3, bad: str = "") -> bytes:
    return (HEADER + "".join(job(number) for number in range(1, n_good + 1)) + bad).encode()


def send(client: Client, content: bytes, *, name: str = "november.swf", **fields: Any) -> Any:
    given = {"source": "abisko", "format": "auto", "time_zone": "", "mode": "dry"} | fields
    return client.post(UPLOAD, given | {"file": SimpleUploadedFile(name, content)})


def sent(client: Client, content: bytes, **fields: Any) -> Import:
    """Send a file and let a worker read it."""
    response = send(client, content, **fields)
    assert response.status_code == 303, response.content.decode()
    made = Import.objects.latest("pk")
    assert response["Location"] == page_of(made)
    work_run_now(made.run_id)
    made.refresh_from_db()
    return made


def page_of(made: Import, page: str = "import") -> str:
    return reverse(f"pages:{page}", kwargs={"import_id": made.pk})


def shown(client: Client, url: str, **headers: str) -> Page:
    return read(client.get(url, headers=headers))


def result(page: Page) -> tuple[str | None, list[int]]:
    """Key of the result of a file, and the numbers in its heading."""
    verdict = page.one("#verdict")
    return verdict.attributes["data-key"], [int(n) for n in re.findall(r"\d+", text_of(verdict))]


def test_without_a_source_the_page_offers_one_action(as_admin: Client, as_bob: Client) -> None:
    page = shown(as_admin, SOURCES)
    assert page.has("#none")
    assert len(page.all(f'main a[href="{UPLOAD}"]')) == 1
    assert UPLOAD not in as_bob.get(SOURCES).content.decode()


def test_a_source_shows_its_lag_and_its_records(as_admin: Client, source: Source) -> None:
    sent(as_admin, log(3, bad="4 x\n"), mode="real")
    Source.objects.update(expected_every_s=3600, last_received_at=clock.now() - timedelta(hours=9))
    answer = as_admin.get(SOURCES)
    page = read(answer)
    headline, (late,) = page.one("h1").attributes, answer.context["late"]
    assert (headline["data-key"], headline["data-value"]) == ("late", "1")
    for part in ("abisko log", "9\u00a0h"):
        assert part in late
    row = '[data-testid="source"]'
    assert "abisko log" in page.text(f"{row} th")
    assert re.findall(r"\d+", page.text(f'{row} [data-testid="lag"]')) == ["9", "1"]  # of the hours expected
    assert page.text(f'{row} [data-testid="n-records"]') == "3"
    assert page.text(f'{row} [data-testid="n-rejected"] a') == "1"


def test_the_page_of_a_source_shows_its_days_and_how_to_send_to_it(as_bob: Client, source: Source) -> None:
    page = shown(as_bob, f"{SOURCES}abisko/")
    (label,) = [figure.attributes["aria-label"] or "" for figure in page.all(".wide svg[role=img]")]
    assert re.findall(r"\d+", label)[:1] == ["60"]  # days
    assert "/api/v1/usage/records?source=abisko" in page.text("main")
    assert as_bob.get(f"{SOURCES}nothing/").status_code == 404


def test_a_dry_run_stores_nothing_and_its_confirmation_stores_what_it_reported(
    as_admin: Client, source: Source
) -> None:
    dry = sent(as_admin, log(3, bad="4 x\n"))
    answer = as_admin.get(page_of(dry))
    page = read(answer)
    assert result(page) == ("would_add_in_part", [3, 1])
    assert answer.context["report"].n_wanted == 3
    assert page.has(f'form[action="{page_of(dry, "import-confirm")}"]')
    assert not Record.objects.exists()
    response = as_admin.post(page_of(dry, "import-confirm"))
    real = Import.objects.latest("pk")
    assert response["Location"] == page_of(real)
    assert real.pk != dry.pk
    assert as_admin.post(page_of(dry, "import-confirm"))["Location"] == page_of(real)
    work_run_now(real.run_id)
    assert result(shown(as_admin, page_of(real))) == ("added_in_part", [3, 1])
    assert Record.objects.count() == 3


def of_day(begins_at: datetime) -> bytes:
    """A log with one job of that day's first hours."""
    return f"; UnixStartTime: {int(begins_at.timestamp())}\n{job(1)}".encode()


def test_a_file_older_than_the_window_changes_no_priority_and_reports_it(as_admin: Client, source: Source) -> None:
    make_policy(slug="grid", name="Grid", at=clock.now(), actor=SYSTEM)
    old = shown(as_admin, page_of(sent(as_admin, log())))
    begins = presentation.day(clock.now() - timedelta(days=90), clock.now())
    assert begins in text_of(old.item("outside-window"))
    recent = of_day(clock.now() - timedelta(hours=25))
    assert not shown(as_admin, page_of(sent(as_admin, recent))).has("[data-testid=outside-window]")


def test_a_file_from_before_the_last_reset_changes_no_priority_and_reports_it(as_admin: Client, source: Source) -> None:
    monthly = {"window": {"reset": "monthly", "reset_zone": "UTC", "length_s": None, "aging": "none"}}
    make_policy(slug="grid", name="Grid", at=clock.now(), actor=SYSTEM)
    change_settings(policy_slug="grid", settings=monthly, reason="By the month.", at=clock.now(), actor=COMMAND)
    reset_at = clock.now().astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    before = shown(as_admin, page_of(sent(as_admin, of_day(reset_at - timedelta(hours=30)))))
    begins = presentation.clock_time(reset_at, clock.now()).replace(NBSP, " ")
    assert begins in text_of(before.item("outside-window"))
    since = of_day(reset_at + timedelta(minutes=1))
    assert not shown(as_admin, page_of(sent(as_admin, since))).has("[data-testid=outside-window]")
    make_policy(slug="longer", name="Longer", at=clock.now(), actor=SYSTEM)
    of_both = shown(as_admin, page_of(sent(as_admin, of_day(reset_at - timedelta(hours=31)))))
    assert not of_both.has("[data-testid=outside-window]"), "the other policy's window reaches further"


def test_an_import_links_to_its_unmapped_accounts(as_admin: Client, source: Source) -> None:
    policy = make_policy(slug="grid", name="Grid", at=clock.now(), actor=SYSTEM)
    page = shown(as_admin, page_of(sent(as_admin, log(), mode="real")))
    assert page.item("map-accounts").attributes["href"] == f"/policy/{policy.slug}/mappings/#unmapped"


def test_one_of_several_sources_is_chosen(as_admin: Client, source: Source) -> None:
    services.make_source(services.NewSource(slug="umea", name="Umea log"), at=clock.now(), actor=SYSTEM)
    first, *others = shown(as_admin, UPLOAD).each("#id_source option", "value")
    assert (first, others[:2]) == ("", ["abisko", "umea"])
    assert send(as_admin, log(), source="").status_code == 422
    assert not Import.objects.exists()


def test_importing_the_same_file_again_reports_no_new_records(as_admin: Client, source: Source) -> None:
    sent(as_admin, log(3), mode="real")
    again = sent(as_admin, gzip.compress(log(3)), name="again.swf.gz", mode="real")
    assert result(shown(as_admin, page_of(again)))[0] == "all_here"
    assert Record.objects.count() == 3


def test_a_file_can_be_imported_with_a_new_source(as_admin: Client) -> None:
    made = sent(as_admin, log(), source="+", new_source="Kebnekaise 2026", mode="real")
    assert (made.source.slug, made.source.name) == ("kebnekaise-2026", "Kebnekaise 2026")


@pytest.mark.parametrize(
    ("content", "fields", "place", "code", "result"),
    [
        (gzip.compress(log(500), mtime=0)[:-20], {}, "file", "corrupt_gzip", r"\d"),  # at which byte
        (b"\x1f\x8bnonsense that only begins like gzip", {}, "file", "corrupt_gzip", r"\d"),
        (b"", {}, "file", "empty", ""),
        (b"Dear administrator, this is no log.", {}, "format", "unknown_format", ""),
        (b"%PDF-1.7 neither is this", {}, "file", "not_text", "PDF"),
        (b"PK\x03\x04 and so on", {}, "file", "archive", "zip"),
        (log(), {"time_zone": "Mars/Olympus"}, "time_zone", "no_such_zone", ""),
        (log(), {"source": "nothing"}, "source", "invalid_choice", "nothing"),
        (log(), {"source": "+"}, "new_source", "required", ""),
        (log(), {"source": "+", "new_source": "Abisko"}, "new_source", "source_exists", ""),
        (log(), {"source": "+", "new_source": "×××"}, "new_source", "no_letter", ""),
    ],
)
def test_a_rejected_file_names_the_line_and_stores_nothing(
    as_admin: Client,
    source: Source,
    settings: LazySettings,
    content: bytes,
    fields: dict[str, str],
    place: str,
    code: str,
    result: str,
) -> None:
    uploads = Path(settings.VAR) / "uploads"
    before = sorted(uploads.glob("*")) if uploads.is_dir() else []
    response = send(as_admin, content, **fields)
    assert re.search(result, read(response, 422).text(f"#id_{place}_error"))
    errors = response.context["form"].errors.as_data()
    assert {name: [error.code for error in found] for name, found in errors.items()} == {place: [code]}
    assert not Import.objects.exists()
    assert not Run.objects.exists()
    assert list(Source.objects.values_list("slug", flat=True)) == ["abisko"]
    assert (sorted(uploads.glob("*")) if uploads.is_dir() else []) == before


def test_an_invalid_source_with_a_broken_file_is_not_created(as_admin: Client) -> None:
    assert send(as_admin, b"no log", source="+", new_source="new").status_code == 422
    assert not Source.objects.exists()


def test_a_file_over_the_limit_is_refused_before_it_is_read(
    as_admin: Client, source: Source, settings: LazySettings
) -> None:
    settings.FAIRSHARE_UPLOAD_BYTES = 1000
    response = send(as_admin, b"x" * 1_100_000)
    assert (response.status_code, response.context["refusal"].code) == (413, "too_large")
    assert "1.0\u00a0kB" in response.context["refusal"].message
    assert send(as_admin, b"x" * 1001).status_code == 413
    assert not Import.objects.exists()


def test_an_upload_is_streamed_to_disk(as_admin: Client, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bool] = []
    original = services.start_import

    def start(new: services.NewImport, **rest: Any) -> Import:
        kept.append(stat.S_ISREG(os.fstat(new.file.fileno()).st_mode))
        return original(new, **rest)

    monkeypatch.setattr(services, "start_import", start)
    assert send(as_admin, log()).status_code == 303
    assert kept == [True]


def test_with_htmx_success_redirects_and_errors_return_the_form_only(as_admin: Client, source: Source) -> None:
    given = {"source": "abisko", "format": "auto", "mode": "dry"}
    headers = {"HX-Request": "true"}
    good = as_admin.post(UPLOAD, given | {"file": SimpleUploadedFile("a.swf", log())}, headers=headers)
    assert good["HX-Redirect"] == page_of(Import.objects.get())
    bad = as_admin.post(UPLOAD, given, headers=headers)
    assert bad.status_code == 422
    assert bad.content.decode().lstrip().startswith("<form")
    assert read(bad, 422).has("form#upload")


def test_a_form_without_csrf_token_is_refused(admin: User, source: Source) -> None:
    strict = Client(enforce_csrf_checks=True)
    sign_in(strict, admin)
    assert send(strict, log()).status_code == 403
    token = shown(strict, UPLOAD).one("#upload [name=csrfmiddlewaretoken]").attributes["value"]
    assert send(strict, log(), csrfmiddlewaretoken=token).status_code == 303


def test_members_see_sources_but_cannot_import(as_bob: Client, source: Source) -> None:
    assert "abisko log" in shown(as_bob, SOURCES).text('[data-testid="source"] th')
    assert as_bob.get(UPLOAD).status_code == 403
    assert send(as_bob, log()).status_code == 403
    assert not Import.objects.exists()


@pytest.mark.parametrize(
    ("page", "method"),
    [
        ("import", "get"),
        ("import-progress", "get"),
        ("import-rejected", "get"),
        ("import-rejected-csv", "get"),
        ("import-cancel", "post"),
        ("import-confirm", "post"),
    ],
)
def test_the_import_of_another_user_is_not_found(
    as_admin: Client, as_bob: Client, source: Source, page: str, method: str
) -> None:
    made = sent(as_admin, log())
    none = reverse(f"pages:{page}", kwargs={"import_id": made.pk + 1000})
    answers = [getattr(as_bob, method)(url, headers={"HX-Request": "true"}) for url in (page_of(made, page), none)]
    assert [answer.status_code for answer in answers] == [404, 404]
    same = [answer.content.decode().replace(str(made.pk + 1000), "N").replace(str(made.pk), "N") for answer in answers]
    assert same[0] == same[1]
    assert made.file_name not in as_bob.get(SOURCES).content.decode()


def test_the_uploader_sees_the_result_of_an_import(as_admin: Client, as_bob: Client, bob: User, source: Source) -> None:
    made = sent(as_admin, log(2, bad="4 x\n"))
    Import.objects.update(owner=bob)
    Run.objects.update(owner=bob)
    assert result(shown(as_bob, page_of(made))) == ("would_add_in_part", [2, 1])
    assert made.file_name in as_bob.get(SOURCES).content.decode()


def test_progress_is_polled_until_the_run_ends(as_admin: Client, source: Source) -> None:
    send(as_admin, log())
    made = Import.objects.get()
    answer = as_admin.get(page_of(made, "import-progress"), headers={"HX-Request": "true"})
    assert answer.content.decode().lstrip().startswith('<div id="progress"')
    waiting = read(answer)
    assert waiting.one("#progress [data-poll]").attributes["hx-trigger"] == "every 2s"
    assert waiting.has("[role=progressbar]")
    assert waiting.has(f'noscript a[href="{page_of(made)}"]')
    assert result(waiting)[0] == "waiting"
    work_run_now(made.run_id)
    ended = shown(as_admin, page_of(made, "import-progress"), **{"HX-Request": "true"})
    assert not ended.has("[hx-trigger], [role=progressbar]")
    assert result(ended) == ("would_add", [3])


@pytest.mark.parametrize("part", ["import-progress", "import-rejected"])
def test_a_fragment_opened_directly_redirects_to_its_page(as_admin: Client, source: Source, part: str) -> None:
    made = sent(as_admin, log())
    response = as_admin.get(page_of(made, part))
    assert (response.status_code, response["Location"]) == (303, page_of(made))


def test_a_waiting_import_can_be_stopped(as_admin: Client, source: Source) -> None:
    send(as_admin, log(), mode="real")
    made = Import.objects.get()
    assert as_admin.post(page_of(made, "import-cancel"))["Location"] == page_of(made)
    assert result(shown(as_admin, page_of(made)))[0] == "stopped"
    work_run_now(made.run_id)
    assert not Record.objects.exists()


def numbers_shown(page: Page) -> list[str]:
    """How many of how many rejected lines are listed."""
    return re.findall(r"\d+", page.text('#rejected [data-testid="n-shown"]'))


def test_rejected_lines_are_paged_and_complete_as_csv(as_admin: Client, source: Source) -> None:
    bad = "".join(f"={number} cut off\n" for number in range(30))
    made = sent(as_admin, log(2, bad=bad))
    lines = list(RejectedLine.objects.order_by("line").values_list("line", flat=True))
    assert len(lines) == 30
    first = shown(as_admin, page_of(made))
    assert numbers_shown(first) == ["25", "30"]
    assert first.one("#next-rejected").attributes["href"] == f"{page_of(made)}?after={lines[24]}#rejected"
    rest = shown(as_admin, f"{page_of(made, 'import-rejected')}?after={lines[24]}", **{"HX-Request": "true"})
    assert rest.texts('[data-testid="rejected-line"] td.num') == [str(line) for line in lines[25:]]
    assert set(rest.error_codes()) == {"too_few_fields"}
    response = as_admin.get(page_of(made, "import-rejected-csv"))
    table = list(csv.reader(io.StringIO(b"".join(response.streaming_content).decode(), newline="")))  # type: ignore[attr-defined]
    assert table[0] == ["line", "code", "message", "excerpt"]
    assert [row[0] for row in table[1:]] == [str(line) for line in lines]
    assert table[1][3] == "'=0 cut off"


@pytest.mark.parametrize("after", ["x", "-1", "9" * 40, "٣"])
def test_an_invalid_position_starts_at_the_first_page(as_admin: Client, source: Source, after: str) -> None:
    made = sent(as_admin, log(1, bad="4 x\n"))
    assert numbers_shown(shown(as_admin, f"{page_of(made)}?after={after}")) == ["1", "1"]


def test_file_contents_are_escaped(as_admin: Client, source: Source) -> None:
    made = sent(as_admin, log(1, bad="<img src=x onerror=alert(1)>\n"), name="<b>x<b>.swf")
    page = as_admin.get(page_of(made))
    assert "<img" not in page.content.decode()
    assert "<b>x" not in page.content.decode()
    assert read(page).text('[data-testid="rejected-line"] td.mono').startswith("<img src=x")
    assert "<b>x<b>.swf" in read(page).text("h1")


def test_get_requests_write_nothing(as_admin: Client, source: Source) -> None:
    made = sent(as_admin, log(1, bad="4 x\n"))
    urls = [SOURCES, f"{SOURCES}abisko/", UPLOAD, page_of(made), page_of(made, "import-rejected-csv")]
    with CaptureQueriesContext(connection) as seen:
        for url in urls:
            assert as_admin.get(url).status_code == 200
    assert [query["sql"] for query in seen if re.match(r"\s*(INSERT|UPDATE|DELETE)", query["sql"])] == []


def test_changes_need_a_post(as_admin: Client, source: Source) -> None:
    made = sent(as_admin, log())
    state = Run.objects.get(pk=made.run_id).state
    for page in ("import-cancel", "import-confirm"):
        answer = as_admin.get(page_of(made, page))
        assert (answer.status_code, answer["Allow"]) == (405, "POST")
    assert Run.objects.get(pk=made.run_id).state == state
    assert Import.objects.count() == 1


def test_without_sign_in_every_page_redirects_to_it(client: Client, source: Source) -> None:
    for url in (SOURCES, f"{SOURCES}abisko/", UPLOAD, "/usage/imports/1/", "/usage/imports/1/rejected.csv"):
        response = client.get(url)
        assert response.status_code == 302
        assert response["Location"].startswith("/sign-in/")


def test_a_dry_run_shows_what_the_file_adds_to_each_top_entry(grid: Grid) -> None:
    """atlas has 400 cores × 24 h in these hours already; the file brings 10 cores × 2 h, and 1 h unmapped."""
    client = sign_in(Client(), grid.admin)
    begun = grid.at - timedelta(hours=20)
    jobs = [("n1", "alice", "atlas", 10, 2), ("n2", "zoe", "nowhere", 1, 1)]
    lines = [
        json.dumps(
            {
                "job": job,
                "user": user,
                "group": group,
                "start": begun.isoformat(),
                "end": (begun + timedelta(hours=hours)).isoformat(),
                "cpus": cpus,
            }
        )
        for job, user, group, cpus, hours in jobs
    ]
    made = sent(client, "\n".join(lines).encode(), name="new.ndjson", source="cluster-a")
    page = shown(client, page_of(made))
    (row,) = page.items("import-effect")
    assert text_of(row).split() == ["atlas", "800", "20", "820"]
    assert text_of(page.item("import-effect-unmapped")).split()[-1] == "1.0"
    Policy.objects.update(visibility="path")
    stranger = Actor(user=User.objects.create_user("lea"), via="web")
    assert get_import_effect(made, policy_slug=SLUG, actor=stranger) is None
    assert get_import_effect(made, policy_slug=SLUG, actor=Actor(user=grid.alice, via="web")) is None
