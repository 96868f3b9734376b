"""A real slurmrestd that takes JSON Web Tokens alone: what is read with one, and what happens as it expires."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.onboarding.slurmrestd_outputs import read_site_by_rest
from apps.core import clock
from apps.core.errors import Invalid
from apps.policies.formats.registry import get_format, read_file
from apps.priorities.slurm_outputs import split_outputs
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Record, Source
from apps.usage.sources.schedule import enqueue_collection
from apps.usage.sources.services import set_up_source
from apps.usage.sources.slurmrestd import Slurmrestd
from tests.real_schedulers.releases import OWN
from tests.real_schedulers.slurm_site import REST_DOOR, TOKEN_KEY, SlurmSite, running_slurm

pytestmark = [pytest.mark.schedulers, pytest.mark.django_db, pytest.mark.deep, pytest.mark.timeout(600)]

ADMINISTRATOR = "root"  # SlurmUser and administrator of accounting, who sees every job
DAYS = 2  # windows of a first collection


@pytest.fixture(scope="module")
def site(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    if release == OWN:
        pytest.skip("Debian 12's Slurm 22.05 has no auth/jwt")
    with running_slurm(tmp_path_factory.mktemp("slurm"), release=release) as slurm:
        slurm.add_tree({"physics": (30, {"hep": (10, {"ann": 5})}), "bio": (20, {"bob": 1})})
        slurm.submit("ann", "hep", cpus=2)
        slurm.submit("bob", "bio")
        slurm.wait_for_jobs()
        slurm.take_tokens()
        yield slurm


@pytest.fixture
def secrets(tmp_path: Path, settings: Any, site: SlurmSite) -> Path:
    """Their folder, with slurmrestd's socket open to sources."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    settings.FAIRSHARE_SECRETS_DIR = str(folder)
    settings.FAIRSHARE_OUTBOUND_ALLOW = [address_of(site)]
    return folder


def address_of(site: SlurmSite) -> str:
    return f"unix:{site.folder / REST_DOOR}"


def keep(secrets: Path, token: str) -> None:
    file = secrets / "real"
    file.write_text(f"{token}\n")
    file.chmod(0o600)


def made_token(site: SlurmSite, expires_at_s: int) -> str:
    """A token of the site's key for its administrator, as RFC 7515 and 7519 have it; also one that is over."""
    parts = ({"alg": "HS256", "typ": "JWT"}, {"exp": expires_at_s, "iat": expires_at_s - 600, "sun": ADMINISTRATOR})
    signed = b".".join(_encoded(json.dumps(part).encode()) for part in parts)
    mac = hmac.new((site.folder / TOKEN_KEY).read_bytes(), signed, hashlib.sha256).digest()
    return b".".join((signed, _encoded(mac))).decode()


def _encoded(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def source_of(site: SlurmSite) -> Source:
    terms = {"address": address_of(site), "user": ADMINISTRATOR, "look_back_s": DAYS * 86_400}
    new = {"name": "Real", "kind": "slurm-rest", "collecting": terms, "skew_tolerance_s": 86_400}
    return set_up_source(slug="real", new_settings=new, at=clock.now(), actor=COMMAND)


def collect(source: Source) -> Run:
    run = work_run_now(enqueue_collection(source, at=clock.now()).pk)
    source.refresh_from_db()
    return run


def test_jobs_tree_and_shares_are_read_with_a_token_as_scontrol_prints_it(site: SlurmSite, secrets: Path) -> None:
    keep(secrets, site.token(ADMINISTRATOR, 600))
    source = source_of(site)
    run = collect(source)
    assert run.state == "succeeded", run.error
    assert set(Record.objects.values_list("account__user_name", flat=True)) == {"ann", "bob"}
    outputs = read_site_by_rest(Slurmrestd(address_of(site), "real", ADMINISTRATOR, 60.0, clock.now))
    tree = read_file(get_format("sacctmgr"), split_outputs(outputs.text).dump.encode()).tree
    assert {"physics", "hep", "ann", "bio", "bob"} <= set(tree.name)


def test_a_token_that_the_daemon_doesnt_take_is_refused_with_its_file(site: SlurmSite, secrets: Path) -> None:
    """Of another key, cut off, of somebody else; and none at all."""
    whole = made_token(site, int(time.time()) + 600)
    head, claims, _mac = whole.split(".")
    of_another_key = f"{head}.{claims}.{_encoded(bytes(32)).decode()}"
    source = source_of(site)
    for token in (of_another_key, whole[:-5], "nonsense"):
        keep(secrets, token)
        run = collect(source)
        assert (run.state, run.error_code) == ("failed", "token_refused"), (token, run.error)
        assert "FAIRSHARE_SECRETS_DIR/real" in source.collect_error
    (secrets / "real").unlink()
    assert collect(source).error_code == "token_refused"
    assert not Record.objects.exists()


@pytest.mark.parametrize("is_noticed_here", [True, False])
def test_a_token_that_expires_in_a_collection_leaves_the_windows_before_it(
    site: SlurmSite, secrets: Path, monkeypatch: pytest.MonkeyPatch, *, is_noticed_here: bool
) -> None:
    """By its own claim, before it is sent; and by the daemon alone, where this host's clock is behind."""
    keep(secrets, made_token(site, int(time.time()) + 3_600))
    source = source_of(site)
    ask, asked = Slurmrestd.get_file, []

    def expiring(daemon: Slurmrestd, path: str) -> BinaryIO:
        asked.append(path)
        if sum("/slurmdb/" in each for each in asked) == DAYS:
            keep(secrets, made_token(site, int(time.time()) - 120))
        return ask(daemon, path)

    with monkeypatch.context() as during:
        during.setattr(Slurmrestd, "get_file", expiring)
        if not is_noticed_here:
            during.setattr(Slurmrestd, "_refuse_expired", lambda *_: None)
        run = collect(source)
    assert (run.state, run.error_code) == ("failed", "token_expired" if is_noticed_here else "token_refused"), run.error
    assert "FAIRSHARE_SECRETS_DIR/real" in source.collect_error
    assert "to_s" in source.cursor, "the windows before are collected"
    assert not Record.objects.exists(), "the jobs are of the last window"
    keep(secrets, made_token(site, int(time.time()) + 3_600))
    n_asked = len(asked)
    monkeypatch.setattr(Slurmrestd, "get_file", expiring)
    assert collect(source).state == "succeeded"
    assert min(map(start_of, asked[n_asked:])) > min(map(start_of, asked[:n_asked])), (
        "the first window isn't asked again"
    )
    assert set(Record.objects.values_list("account__user_name", flat=True)) == {"ann", "bob"}


def start_of(path: str) -> float:
    """Where the window of a request begins, in seconds since 1970; a listing has none."""
    start = re.search(r"start_time=(\d+)", path)
    return float(start[1]) if start else math.inf


def test_first_steps_says_that_its_token_is_over(site: SlurmSite, secrets: Path) -> None:
    keep(secrets, made_token(site, int(time.time()) - 1))
    with pytest.raises(Invalid, match="expired at"):
        read_site_by_rest(Slurmrestd(address_of(site), "real", ADMINISTRATOR, 60.0, clock.now))
