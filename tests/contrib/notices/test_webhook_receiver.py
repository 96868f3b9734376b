"""The documented receiver accepts what this site signs, once, and refuses everything else."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.contrib.notices.webhook_calls import sign
from apps.contrib.notices.webhooks import standard_secret
from apps.core.code_paths import REPOSITORY

SCRIPT = REPOSITORY / "docs/examples/webhook/receive.py"
# From the tests of the scheme's own libraries.
SECRET, ID, TIMESTAMP = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330"
BODY = json.dumps({"event": "notice.opened", "notice": {"sentence": {"text": "It is late."}}}).encode()
Running = tuple[str, "subprocess.Popen[str]"]


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Running]:
    file = tmp_path / "secret.txt"
    file.write_text(f"{SECRET}\n")
    process = subprocess.Popen([sys.executable, SCRIPT, "0", file], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = process.stdout.readline().split()[-1]
        yield f"http://127.0.0.1:{port}/", process
    finally:
        process.kill()
        process.communicate()


def send(url: str, body: bytes = BODY, *, id: str = ID, at_s: float | None = None, signature: str | None = None) -> int:
    timestamp = str(int(time.time() if at_s is None else at_s))
    headers = {"webhook-id": id, "webhook-timestamp": timestamp, "Content-Type": "application/json"}
    headers["webhook-signature"] = sign(SECRET, id, timestamp, BODY) if signature is None else signature
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_signature_is_that_of_the_published_example() -> None:
    signature = sign(SECRET, ID, TIMESTAMP, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_secret_from_before_is_encoded_once() -> None:
    assert standard_secret("an-old_secret") == "whsec_YW4tb2xkX3NlY3JldA=="
    assert standard_secret(SECRET) == SECRET


def test_a_delivery_is_printed_once_however_often_it_comes(receiver: Running) -> None:
    url, process = receiver
    assert [send(url), send(url), send(url, id="another")] == [204, 204, 204]
    assert process.stdout is not None
    assert [process.stdout.readline() for _n in range(2)] == ["notice.opened It is late.\n"] * 2
    process.kill()
    assert process.stdout.read() == ""


def test_several_signatures_are_accepted_while_a_secret_is_replaced(receiver: Running) -> None:
    now_s = time.time()
    signature = f"v1,AAAA v2,x {sign(SECRET, ID, str(int(now_s)), BODY)}"
    assert send(receiver[0], at_s=now_s, signature=signature) == 204


def test_forged_changed_old_and_empty_deliveries_are_refused(receiver: Running) -> None:
    url, now_s = receiver[0], time.time()
    assert send(url, BODY.replace(b"late", b"fine")) == 401
    assert send(url, at_s=now_s - 400) == 401
    assert send(url, at_s=now_s + 400) == 401
    assert send(url, b"") == 401
    for signature in ("", "v1,", "v1,AAAA", "v2,x", "é"):
        assert send(url, signature=signature) == 401
