"""slurmrestd without a version: which parser is asked, what is read of each, and what refuses with which remedy."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from apps.accounts.actor import COMMAND
from apps.core.addresses import Refused
from apps.core.errors import Invalid
from apps.core.outbound import Unreachable, fetch, fetch_by_socket
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Record, Source
from apps.usage.sources.schedule import enqueue_collection
from apps.usage.sources.services import set_up_source
from apps.usage.sources.slurmrestd import PARSERS, parser_of
from tests.usage.sources.slurmrestd_server import Daemon, specification

# What each release offers, from its published source (src/plugins/data_parser); the newest is asked.
OFFERED = {
    "23.02": ("v0.0.37", "v0.0.38", "v0.0.39"),
    "23.11": ("v0.0.39", "v0.0.40"),
    "24.05": ("v0.0.39", "v0.0.40", "v0.0.41"),
    "24.11": ("v0.0.40", "v0.0.41", "v0.0.42"),
    "25.05": ("v0.0.40", "v0.0.41", "v0.0.42", "v0.0.43"),
    "25.11": ("v0.0.41", "v0.0.42", "v0.0.43", "v0.0.44"),
    "26.05": ("v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"),
}
AT = datetime(2027, 1, 1, tzinfo=UTC)  # after the captured jobs


def jwt_of(expires_at: datetime) -> str:
    claims = orjson.dumps({"sun": "collector", "exp": int(expires_at.timestamp())})
    return f"eyJhbGciOiJIUzI1NiJ9.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2lnbmF0dXJl"


def keep_token(folder: Path, text: str, slug: str = "slurm") -> None:
    path = folder / slug
    path.unlink(missing_ok=True)
    path.touch(0o600)
    path.write_text(text)


@pytest.fixture
def site(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    settings.FAIRSHARE_SECRETS_DIR = str(tmp_path)
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    keep_token(tmp_path, "SLURM_JWT=" + jwt_of(AT + timedelta(days=30)) + "\n")
    return tmp_path


@pytest.fixture
def make(settings: Any, site: Path) -> Iterator[Callable[..., Daemon]]:
    made: list[Daemon] = []

    def make_one(answers: dict[str, tuple[int, bytes]], socket: str = "") -> Daemon:
        daemon = Daemon(answers, socket)
        made.append(daemon)
        settings.FAIRSHARE_OUTBOUND_ALLOW = [daemon.place]
        return daemon

    yield make_one
    for daemon in made:
        daemon.close()


def released(golden_dir: Path, release: str) -> dict[str, tuple[int, bytes]]:
    """What a real slurmrestd answered with that parser; 23.02's is built (tests/golden/slurm/README.md)."""
    parser = OFFERED[release][-1]
    real = golden_dir / "slurm" / ("24.11.5" if parser in OFFERED["24.11"] else "26.05.5") / "rest"
    files = {"slurmdb": real / f"slurmdb-{parser}-jobs.json", "slurm": real / f"slurm-{parser}-jobs.json"}
    if release == "23.02":
        built = golden_dir / "slurm/releases"
        files = {"slurmdb": built / f"{release}-sacct.json", "slurm": built / f"{release}-squeue.json"}
    answers = {f"/{plugin}/{parser}/jobs": (200, path.read_bytes()) for plugin, path in files.items()}
    return {"/openapi/v3": specification(*OFFERED[release]), **answers}


def slurm(daemon: Daemon, **terms: Any) -> Source:
    whole = {"address": daemon.address, "user": "collector", "look_back_s": 86400, "overlap_s": 600, **terms}
    new = {"name": "Slurm", "kind": "slurm-rest", "collecting": whole, "collect_every_s": 300}
    return set_up_source(slug="slurm", new_settings=new, at=AT, actor=COMMAND)


def collect(source: Source, at: datetime = AT) -> Run:
    run = work_run_now(enqueue_collection(source, at=at).pk)
    source.refresh_from_db()
    return run


@pytest.mark.django_db
@pytest.mark.parametrize("release", OFFERED)
def test_without_a_version_the_newest_known_parser_of_each_release_is_asked_and_read(
    release: str, make: Callable[..., Daemon], golden_dir: Path
) -> None:
    daemon, newest = make(released(golden_dir, release)), OFFERED[release][-1]
    source = slurm(daemon)
    run = collect(source)
    assert run.state == "succeeded", run.error
    assert daemon.paths == ["/openapi/v3", f"/slurmdb/{newest}/jobs", f"/slurm/{newest}/jobs"]
    assert (run.counts["rejected"], parser_of(source)) == (0, newest)
    (times,) = [query for _, query, _ in daemon.asked if query]
    assert times["end_time"] == [f"{'uts' if newest == 'v0.0.39' else ''}{int(AT.timestamp())}"]
    n_listed = len(orjson.loads(daemon.answers[f"/slurmdb/{newest}/jobs"][1])["jobs"])
    assert (
        0 < Record.objects.count() <= n_listed + len(orjson.loads(daemon.answers[f"/slurm/{newest}/jobs"][1])["jobs"])
    )


@pytest.mark.django_db
@pytest.mark.parametrize(("older", "newest"), [(("23.11", "24.05"), "24.11"), (("25.05", "25.11"), "26.05")])
def test_parsers_of_one_site_give_the_same_records(
    make: Callable[..., Daemon], golden_dir: Path, site: Path, older: tuple[str, ...], newest: str
) -> None:
    """Of older parsers one job of each state was kept."""
    columns = ("job", "state", "start_at", "end_at", "cpus", "mem_mb", "account__user_name")
    by_release = {}
    for release in (*older, newest):
        daemon, slug = make(released(golden_dir, release)), f"of-{release.replace('.', '-')}"
        keep_token(site, jwt_of(AT + timedelta(days=1)), slug)
        new = {"name": release, "kind": "slurm-rest", "collecting": {"address": daemon.address}}
        source = set_up_source(slug=slug, new_settings=new, at=AT, actor=COMMAND)
        assert collect(source).state == "succeeded"
        by_release[release] = set(Record.objects.filter(source=source).values_list(*columns))
    first, second = (by_release[release] for release in older)
    assert first == second
    assert set() != first < by_release[newest]


@pytest.mark.django_db
def test_the_parser_is_asked_for_once_a_day_and_again_when_it_is_gone(
    make: Callable[..., Daemon], golden_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = make(released(golden_dir, "24.11"))
    source = slurm(daemon)
    collect(source)
    daemon.asked.clear()
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(minutes=5)).isoformat())
    collect(source, AT + timedelta(minutes=5))
    assert "/openapi/v3" not in daemon.paths
    daemon.asked.clear()
    daemon.answers = released(golden_dir, "26.05")
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(minutes=10)).isoformat())
    run = collect(source, AT + timedelta(minutes=10))
    assert (run.state, parser_of(source)) == ("succeeded", "v0.0.45")
    assert daemon.paths[:3] == ["/slurmdb/v0.0.42/jobs", "/openapi/v3", "/slurmdb/v0.0.45/jobs"]
    daemon.asked.clear()
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(days=2)).isoformat())
    collect(source, AT + timedelta(days=2))
    assert daemon.paths[0] == "/openapi/v3"


@pytest.mark.django_db
def test_without_a_specification_the_parsers_are_tried_from_the_newest(
    make: Callable[..., Daemon], golden_dir: Path
) -> None:
    answers = released(golden_dir, "24.11")
    answers["/openapi/v3"] = (500, b"")
    for family, name in (("slurmdb", "tres"), ("slurm", "ping")):
        answers[f"/{family}/v0.0.42/{name}"] = (200, b'{"meta": {}, "errors": []}')
    daemon = make(answers)
    source = slurm(daemon)
    assert (collect(source).state, parser_of(source)) == ("succeeded", "v0.0.42")
    assert daemon.paths[:5] == ["/openapi/v3", *(f"/slurmdb/v0.0.{number}/tres" for number in (45, 44, 43, 42))]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (specification("v0.0.46", "v0.0.47"), "offers v0.0.46 and v0.0.47 of /slurmdb, and this release reads v0.0.38"),
        (specification("v0.0.42", families=("slurm",)), "slurmrestd loads openapi/slurmdbd (its option -s)"),
        ((200, b'{"openapi": "3.0.3"}'), "answers none of /slurmdb/v0.0.38 to /slurmdb/v0.0.45"),
        ((200, b"<html>a portal</html>"), "answers none of /slurmdb/v0.0.38 to /slurmdb/v0.0.45"),
        ((401, b"Authentication failure"), "rejects the token at /openapi/v3: replace it in its file"),
    ],
)
def test_a_daemon_without_a_known_parser_is_refused_with_what_it_offers_and_the_remedy(
    answer: tuple[int, bytes], message: str, make: Callable[..., Daemon]
) -> None:
    daemon = make({"/openapi/v3": answer})
    source = slurm(daemon)
    run = collect(source)
    assert (run.state, Record.objects.count(), source.cursor) == ("failed", 0, {})
    assert message in source.collect_error
    assert len(daemon.asked) <= 1 + 2 * len(PARSERS)


@pytest.mark.django_db
def test_a_set_version_that_is_gone_names_those_that_are_offered(make: Callable[..., Daemon], golden_dir: Path) -> None:
    source = slurm(make(released(golden_dir, "26.05")), version="v0.0.40")
    assert collect(source).error_code == "no_known_parser"
    assert "offers v0.0.42, v0.0.43, v0.0.44 and v0.0.45: leave the version empty" in source.collect_error


@pytest.mark.django_db
@pytest.mark.parametrize("at", [0.5, 0.999, -2])
def test_half_an_answer_is_not_stored_and_its_window_is_collected_again(
    at: float, make: Callable[..., Daemon], golden_dir: Path
) -> None:
    answers = released(golden_dir, "26.05")
    path = "/slurmdb/v0.0.45/jobs"
    whole = answers[path][1]
    daemon = make(answers)
    daemon.answers[path] = (200, whole[: int(at * len(whole)) if at > 0 else int(at)])
    source = slurm(daemon)
    run = collect(source)
    assert (run.state, run.error_code, Record.objects.count()) == ("failed", "cut_off", 0)
    assert "/slurmdb sent half an answer" in source.collect_error
    assert "to_s" not in source.cursor
    daemon.answers[path] = (200, whole)
    assert collect(source).state == "succeeded"
    assert Record.objects.exists()


@pytest.mark.django_db
def test_a_token_that_expires_between_windows_leaves_whole_windows_and_says_which(
    make: Callable[..., Daemon], golden_dir: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = make(released(golden_dir, "26.05"))
    source = slurm(daemon, look_back_s=3 * 86400)
    expires_at = AT + timedelta(seconds=30)
    keep_token(site, jwt_of(expires_at))
    respond = daemon.answers.get("/slurmdb/v0.0.45/jobs")

    class Later(dict[str, tuple[int, bytes]]):
        """Time passes while the second window is asked for."""

        def get(self, path: str, default: Any = None) -> Any:
            if daemon.paths.count("/slurmdb/v0.0.45/jobs") == 2:
                monkeypatch.setenv("FAIRSHARE_CLOCK", (expires_at + timedelta(seconds=1)).isoformat())
            return super().get(path, default)

    daemon.answers = Later(daemon.answers)
    run = collect(source)
    assert respond is not None
    assert (run.state, run.error_code) == ("failed", "token_expired")
    assert f"expired at {expires_at:%Y-%m-%d %H:%M:%S} UTC, before /slurmdb/v0.0.45/jobs" in source.collect_error
    assert "FAIRSHARE_SECRETS_DIR/slurm" in source.collect_error
    assert source.cursor["to_s"] == int((AT - timedelta(days=1)).timestamp())
    assert daemon.paths.count("/slurmdb/v0.0.45/jobs") == 2


@pytest.mark.django_db
def test_an_expired_token_isnt_sent(make: Callable[..., Daemon], golden_dir: Path, site: Path) -> None:
    daemon = make(released(golden_dir, "26.05"))
    keep_token(site, jwt_of(AT - timedelta(hours=1)))
    assert (collect(slurm(daemon)).error_code, daemon.asked) == ("token_expired", [])


NO_DATABASE = b'{"errors": [{"error_number": 7000, "description": "Failed to open slurmdbd connection"}]}'
NO_REASON = b'{"errors": [{"error_number": -1, "error": "Unspecified error"}]}'
NO_AUTHENTICATION = b'{"errors": [{"error_number": 1007, "error": "Protocol authentication error"}]}'


@pytest.mark.django_db
@pytest.mark.parametrize("failure", [(502, NO_DATABASE), (500, NO_REASON)])
@pytest.mark.parametrize(
    ("controller", "code"),
    [
        ((511, NO_AUTHENTICATION), "token_refused"),
        ((200, b'{"licenses": []}'), "slurm_error"),
        ((500, NO_REASON), "slurm_error"),
        ((404, b"no such path"), "slurm_error"),
    ],
)
def test_a_token_that_only_the_controller_names_as_refused_is_reported(
    failure: tuple[int, bytes],
    controller: tuple[int, bytes],
    code: str,
    make: Callable[..., Daemon],
    golden_dir: Path,
) -> None:
    """As 24.11 and 26.05 answer a token of another key; the same where slurmdbd is down is the daemon's trouble."""
    daemon = make(released(golden_dir, "26.05"))
    daemon.answers |= {"/slurmdb/v0.0.45/jobs": failure, "/slurm/v0.0.45/licenses": controller}
    assert collect(slurm(daemon)).error_code == code


@pytest.mark.django_db
def test_nothing_found_by_the_database_is_no_error(make: Callable[..., Daemon], golden_dir: Path) -> None:
    answers = released(golden_dir, "26.05")
    answers["/slurmdb/v0.0.45/jobs"] = (204, b"")
    assert collect(slurm(make(answers))).state == "succeeded"


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:  # paths of sockets are short
        yield Path(name)


@pytest.mark.django_db
def test_a_socket_that_the_operator_lists_needs_no_token(
    make: Callable[..., Daemon], golden_dir: Path, folder: Path, site: Path
) -> None:
    (site / "slurm").unlink()
    daemon = make(released(golden_dir, "26.05"), socket=str(folder / "Slurm.sock"))
    run = collect(slurm(daemon))
    assert run.state == "succeeded", run.error
    assert all("X-SLURM-USER-TOKEN" not in headers for _, _, headers in daemon.asked)
    assert {headers["Host"] for _, _, headers in daemon.asked} == {"localhost"}
    keep_token(site, jwt_of(AT + timedelta(days=1)))
    collect(Source.objects.get(), AT)
    assert "X-SLURM-USER-TOKEN" in daemon.asked[-1][2]


@pytest.mark.django_db
def test_a_socket_is_opened_by_the_operator_only(
    make: Callable[..., Daemon], golden_dir: Path, folder: Path, settings: Any
) -> None:
    daemon = make(released(golden_dir, "26.05"), socket=str(folder / "a.sock"))
    for allowed in ([], [f"unix:{folder}"], [f"unix:{folder}/"], [daemon.address.upper()]):
        settings.FAIRSHARE_OUTBOUND_ALLOW = allowed
        with pytest.raises(Invalid) as refusal:
            slurm(daemon)
        assert "FAIRSHARE_OUTBOUND_ALLOW" in refusal.value.fields[0].message
    settings.FAIRSHARE_OUTBOUND_ALLOW = [daemon.address]
    source = slurm(daemon)
    settings.FAIRSHARE_OUTBOUND_ALLOW = []
    assert (collect(source).error_code, daemon.asked) == ("address_refused", [])


@pytest.mark.parametrize(
    "address",
    [
        "unix:relative.sock",
        "unix:/run/../run/a.sock",
        "unix://run/a.sock",
        "unix:/run/a.sock/",
        "unix:/run/a b",
        "unix:",
        "unix:/" + "a" * 107,
        "/run/a.sock",
        "http:/run/a.sock",
    ],
)
def test_a_socket_has_one_spelling(address: str, settings: Any) -> None:
    settings.FAIRSHARE_OUTBOUND_ALLOW = [address]
    with pytest.raises(Refused):
        fetch_by_socket(address, "/")


def test_no_url_and_no_redirect_leads_to_a_socket(make: Callable[..., Daemon], folder: Path, settings: Any) -> None:
    daemon = make({"/": (200, b"secret")}, socket=str(folder / "a.sock"))
    for url in (daemon.address, f"http+unix:{daemon.address[5:]}", f"http://{daemon.address}/", "http://localhost/"):
        with pytest.raises(Refused):
            fetch(url)
    assert fetch_by_socket(daemon.address, "/").body == b"secret"
    assert len(daemon.asked) == 1


def test_what_is_no_socket_of_its_owner_is_not_connected_to(
    make: Callable[..., Daemon], folder: Path, settings: Any
) -> None:
    real = make({"/": (200, b"answer")}, socket=str(folder / "a.sock"))
    (folder / "file").write_text("")
    (folder / "link").symlink_to(folder / "a.sock")
    names = ("file", "link", "missing")
    settings.FAIRSHARE_OUTBOUND_ALLOW = [real.address, *(f"unix:{folder}/{name}" for name in names)]
    for name in ("file", "link"):
        with pytest.raises(Refused):
            fetch_by_socket(f"unix:{folder}/{name}", "/")
    with pytest.raises(Unreachable):
        fetch_by_socket(f"unix:{folder}/missing", "/")
    folder.chmod(0o777)
    with pytest.raises(Refused, match="a folder of its own"):
        fetch_by_socket(real.address, "/")
    assert real.asked == []
