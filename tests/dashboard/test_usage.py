"""Usage sources, and a file on its way through dry run, decision and import."""

from __future__ import annotations

import csv
import gzip
import io
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps import clock
from apps.accounts.actor import SYSTEM
from apps.accounts.models import User
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage import services
from apps.usage.models import Import, Record, RejectedLine, Source

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
    client.force_login(admin)
    return client


@pytest.fixture
def as_bob(bob: User) -> Client:
    client = Client()
    client.force_login(bob)
    return client


@pytest.fixture
def source() -> Source:
    return services.make_source(slug="abisko", name="abisko log", at=clock.now(), actor=SYSTEM)


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
    return reverse(f"dashboard:{page}", kwargs={"import_id": made.pk})


def read(client: Client, url: str, **headers: str) -> str:
    response = client.get(url, headers=headers)
    assert response.status_code == 200
    return str(response.content.decode())


def heading(html: str) -> str:
    found = re.search(r'<h2 id="verdict"[^>]*>([^<]*)</h2>', html)
    assert found
    return found[1]


def test_without_a_source_there_is_one_thing_to_do(as_admin: Client, as_bob: Client) -> None:
    page = read(as_admin, SOURCES)
    assert "No usage sources yet" in page
    assert page.count(f'href="{UPLOAD}"') == 1
    assert UPLOAD not in read(as_bob, SOURCES)


def test_a_source_shows_its_lag_and_its_records(as_admin: Client, source: Source) -> None:
    sent(as_admin, log(3, bad="4 x\n"), mode="real")
    Source.objects.update(expected_every_s=3600, last_record_end_at=clock.now() - timedelta(hours=9))
    page = read(as_admin, SOURCES)
    assert "The source is late" in page
    assert "abisko log has been silent for 9\u00a0h." in page
    assert "9 of 1\u00a0h" in page
    row = re.search(r"<tr>.*?abisko log.*?</tr>", page.partition("<tbody>")[2], re.DOTALL)
    assert row
    assert '<td class="num" data-label="Records">3</td>' in row[0]
    assert re.search(r'data-label="Rejected"><a [^>]*>1</a>', row[0])


def test_the_page_of_a_source_shows_its_days_and_how_to_send_to_it(as_bob: Client, source: Source) -> None:
    page = read(as_bob, f"{SOURCES}abisko/")
    assert 'role="img" aria-label="Coverage of 1 source over 60 days.' in page
    assert "/api/v1/usage/records?source=abisko" in page
    assert as_bob.get(f"{SOURCES}nothing/").status_code == 404


def test_a_dry_run_stores_nothing_and_its_confirmation_stores_what_it_said(as_admin: Client, source: Source) -> None:
    dry = sent(as_admin, log(3, bad="4 x\n"))
    page = read(as_admin, page_of(dry))
    assert heading(page) == "3 new records, 1 line can’t be read"
    assert "Import 3 records" in page
    assert not Record.objects.exists()
    response = as_admin.post(page_of(dry, "import-confirm"))
    real = Import.objects.latest("pk")
    assert response["Location"] == page_of(real)
    assert real.pk != dry.pk
    assert as_admin.post(page_of(dry, "import-confirm"))["Location"] == page_of(real)
    work_run_now(real.run_id)
    assert heading(read(as_admin, page_of(real))) == "3 records added, 1 line can’t be read"
    assert Record.objects.count() == 3


def test_the_same_file_again_says_that_everything_is_here(as_admin: Client, source: Source) -> None:
    sent(as_admin, log(3), mode="real")
    again = sent(as_admin, gzip.compress(log(3)), name="again.swf.gz", mode="real")
    assert heading(read(as_admin, page_of(again))) == "Every record is here already"
    assert Record.objects.count() == 3


def test_a_file_may_come_with_a_new_source(as_admin: Client) -> None:
    made = sent(as_admin, log(), source="+", new_source="Kebnekaise 2026", mode="real")
    assert (made.source.slug, made.source.name) == ("kebnekaise-2026", "Kebnekaise 2026")


@pytest.mark.parametrize(
    ("content", "fields", "place", "message"),
    [
        (gzip.compress(log(500), mtime=0)[:-20], {}, "file", "broken at byte"),
        (b"\x1f\x8bnonsense that only begins like gzip", {}, "file", "broken at byte"),
        (b"", {}, "file", "This file is empty."),
        (b"Dear administrator, this is no log.", {}, "format", "recognised"),
        (b"%PDF-1.7 neither is this", {}, "file", "a PDF document"),
        (b"PK\x03\x04 and so on", {}, "file", "a zip archive"),
        (log(), {"time_zone": "Mars/Olympus"}, "time_zone", "There is no time zone of this name"),
        (log(), {"source": "nothing"}, "source", "not one of the available choices"),
        (log(), {"source": "+"}, "new_source", "Give the new source a name."),
        (log(), {"source": "+", "new_source": "Abisko"}, "new_source", "already"),
        (log(), {"source": "+", "new_source": "×××"}, "new_source", "at least one letter"),
    ],
)
def test_a_file_that_is_refused_says_where_and_leaves_nothing(
    as_admin: Client,
    source: Source,
    settings: LazySettings,
    content: bytes,
    fields: dict[str, str],
    place: str,
    message: str,
) -> None:
    uploads = Path(settings.VAR) / "uploads"
    before = sorted(uploads.glob("*")) if uploads.is_dir() else []
    response = send(as_admin, content, **fields)
    page = response.content.decode()
    assert response.status_code == 422
    error = re.search(rf'id="id_{place}_error">(.*?)</span>', page, re.DOTALL)
    assert error, page
    assert message in error[1]
    assert not Import.objects.exists()
    assert not Run.objects.exists()
    assert list(Source.objects.values_list("slug", flat=True)) == ["abisko"]
    assert (sorted(uploads.glob("*")) if uploads.is_dir() else []) == before


def test_a_refused_source_with_a_broken_file_is_not_made(as_admin: Client) -> None:
    assert send(as_admin, b"no log", source="+", new_source="new").status_code == 422
    assert not Source.objects.exists()


def test_a_file_over_the_limit_is_refused_before_it_is_read(
    as_admin: Client, source: Source, settings: LazySettings
) -> None:
    settings.FAIRSHARE_UPLOAD_BYTES = 1000
    response = send(as_admin, b"x" * 1_100_000)
    assert response.status_code == 413
    assert "A file may have at most 1.0\u00a0kB." in response.content.decode()
    assert send(as_admin, b"x" * 1001).status_code == 413
    assert not Import.objects.exists()


def test_a_file_goes_to_disk_and_never_whole_into_memory(
    as_admin: Client, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[bool] = []
    original = services.start_import

    def start(*, file: Any, **rest: Any) -> Import:
        kept.append(Path(file.name).is_file())
        return original(file=file, **rest)

    monkeypatch.setattr(services, "start_import", start)
    assert send(as_admin, log()).status_code == 303
    assert kept == [True]


def test_with_htmx_the_browser_is_sent_on_and_errors_come_as_the_form_alone(as_admin: Client, source: Source) -> None:
    given = {"source": "abisko", "format": "auto", "mode": "dry"}
    headers = {"HX-Request": "true"}
    good = as_admin.post(UPLOAD, given | {"file": SimpleUploadedFile("a.swf", log())}, headers=headers)
    assert good["HX-Redirect"] == page_of(Import.objects.get())
    bad = as_admin.post(UPLOAD, given, headers=headers)
    assert bad.status_code == 422
    assert bad.content.decode().lstrip().startswith('<form id="upload"')


def test_a_form_without_its_token_is_refused(admin: User, source: Source) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin)
    assert send(strict, log()).status_code == 403
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', read(strict, UPLOAD))
    assert token
    assert send(strict, log(), csrfmiddlewaretoken=token[1]).status_code == 303


def test_members_look_at_sources_and_import_nothing(as_bob: Client, source: Source) -> None:
    assert "abisko log" in read(as_bob, SOURCES)
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
def test_the_import_of_somebody_else_answers_like_one_that_does_not_exist(
    as_admin: Client, as_bob: Client, source: Source, page: str, method: str
) -> None:
    made = sent(as_admin, log())
    none = reverse(f"dashboard:{page}", kwargs={"import_id": made.pk + 1000})
    answers = [getattr(as_bob, method)(url, headers={"HX-Request": "true"}) for url in (page_of(made, page), none)]
    assert [answer.status_code for answer in answers] == [404, 404]
    same = [answer.content.decode().replace(str(made.pk + 1000), "N").replace(str(made.pk), "N") for answer in answers]
    assert same[0] == same[1]
    assert made.file_name not in read(as_bob, SOURCES)


def test_whoever_sent_a_file_sees_what_became_of_it(
    as_admin: Client, as_bob: Client, bob: User, source: Source
) -> None:
    made = sent(as_admin, log(2, bad="4 x\n"))
    Import.objects.update(owner=bob)
    Run.objects.update(owner=bob)
    assert heading(read(as_bob, page_of(made))) == "2 new records, 1 line can’t be read"
    assert made.file_name in read(as_bob, SOURCES)


def test_progress_asks_again_until_the_work_has_ended(as_admin: Client, source: Source) -> None:
    send(as_admin, log())
    made = Import.objects.get()
    waiting = read(as_admin, page_of(made, "import-progress"), **{"HX-Request": "true"})
    assert waiting.lstrip().startswith('<div id="progress"')
    assert 'hx-trigger="every 2s"' in waiting
    assert 'role="progressbar"' in waiting
    assert "Refresh" in waiting
    work_run_now(made.run_id)
    ended = read(as_admin, page_of(made, "import-progress"), **{"HX-Request": "true"})
    assert "hx-trigger" not in ended
    assert 'role="progressbar"' not in ended
    assert heading(ended) == "3 new records"


@pytest.mark.parametrize("part", ["import-progress", "import-rejected"])
def test_a_part_opened_by_itself_leads_to_its_page(as_admin: Client, source: Source, part: str) -> None:
    made = sent(as_admin, log())
    response = as_admin.get(page_of(made, part))
    assert (response.status_code, response["Location"]) == (303, page_of(made))


def test_a_waiting_import_can_be_stopped(as_admin: Client, source: Source) -> None:
    send(as_admin, log(), mode="real")
    made = Import.objects.get()
    assert as_admin.post(page_of(made, "import-cancel"))["Location"] == page_of(made)
    assert heading(read(as_admin, page_of(made))) == "Stopped"
    work_run_now(made.run_id)
    assert not Record.objects.exists()


def test_rejected_lines_come_in_pages_and_all_as_csv(as_admin: Client, source: Source) -> None:
    bad = "".join(f"={number} cut off\n" for number in range(30))
    made = sent(as_admin, log(2, bad=bad))
    lines = list(RejectedLine.objects.order_by("line").values_list("line", flat=True))
    assert len(lines) == 30
    first = read(as_admin, page_of(made))
    assert "25 of 30" in first
    assert f"?after={lines[24]}#rejected" in first
    rest = read(as_admin, f"{page_of(made, 'import-rejected')}?after={lines[24]}", **{"HX-Request": "true"})
    assert re.findall(r'data-label="Line">(\d+)<', rest) == [str(line) for line in lines[25:]]
    assert "too few fields" in rest
    response = as_admin.get(page_of(made, "import-rejected-csv"))
    table = list(csv.reader(io.StringIO(b"".join(response.streaming_content).decode(), newline="")))  # type: ignore[attr-defined]
    assert table[0] == ["line", "code", "message", "excerpt"]
    assert [row[0] for row in table[1:]] == [str(line) for line in lines]
    assert table[1][3] == "'=0 cut off"


@pytest.mark.parametrize("after", ["x", "-1", "9" * 40, "٣"])
def test_a_made_up_place_in_the_list_begins_at_its_start(as_admin: Client, source: Source, after: str) -> None:
    made = sent(as_admin, log(1, bad="4 x\n"))
    assert "1 of 1" in read(as_admin, f"{page_of(made)}?after={after}")


def test_what_a_file_contains_is_text_never_markup(as_admin: Client, source: Source) -> None:
    made = sent(as_admin, log(1, bad="<img src=x onerror=alert(1)>\n"), name="<b>x</b>.swf")
    page = read(as_admin, page_of(made))
    assert "<img" not in page
    assert "<b>x</b>" not in page
    assert "&lt;img src=x" in page


def test_looking_writes_nothing(as_admin: Client, source: Source) -> None:
    made = sent(as_admin, log(1, bad="4 x\n"))
    urls = [SOURCES, f"{SOURCES}abisko/", UPLOAD, page_of(made), page_of(made, "import-rejected-csv")]
    with CaptureQueriesContext(connection) as seen:
        for url in urls:
            assert as_admin.get(url).status_code == 200
    assert [query["sql"] for query in seen if re.match(r"\s*(INSERT|UPDATE|DELETE)", query["sql"])] == []


def test_what_changes_something_is_never_done_by_looking(as_admin: Client, source: Source) -> None:
    made = sent(as_admin, log())
    state = Run.objects.get(pk=made.run_id).state
    for page in ("import-cancel", "import-confirm"):
        answer = as_admin.get(page_of(made, page))
        assert (answer.status_code, answer["Allow"]) == (405, "POST")
    assert Run.objects.get(pk=made.run_id).state == state
    assert Import.objects.count() == 1


def test_without_a_sign_in_every_page_leads_to_it(client: Client, source: Source) -> None:
    for url in (SOURCES, f"{SOURCES}abisko/", UPLOAD, "/usage/imports/1/", "/usage/imports/1/rejected.csv"):
        response = client.get(url)
        assert response.status_code == 302
        assert response["Location"].startswith("/sign-in/")
