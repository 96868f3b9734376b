"""Tries each setting that names something outside of this process: hosts, addresses, programs, folders and files.

Nothing is sent but what begins a conversation. All are tried at once, each within a few seconds.
"""

from __future__ import annotations

import os
import socket
import ssl
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.core.mail import get_connection

from apps.accounts.sign_in.backends import try_directory
from apps.cli.doctor.check import Finding
from apps.core.addresses import split_address
from apps.core.outbound_proxy import parse_proxy
from apps.pages.sign_in.oidc import read_issuer
from apps.web.links.hosts import is_answered

TRY_S = 5.0  # of one conversation
_ALL_S = 10.0
_SETTINGS = "docs/settings.md"
_Try = Callable[[], Iterator[Finding]]


def check_outside(at: datetime) -> Iterator[str | Finding]:
    tries = {name: attempt for name, attempt in _tries().items() if attempt is not None}
    yield f"tried: {', '.join(tries)}" if tries else "no setting names anything outside"
    threads = ThreadPoolExecutor(max(len(tries), 1), thread_name_prefix="doctor")
    attempts = {name: threads.submit(lambda each: list(each()), attempt) for name, attempt in tries.items()}
    wait(attempts.values(), timeout=_ALL_S)
    threads.shutdown(wait=False, cancel_futures=True)
    for name, attempt in attempts.items():
        if not attempt.done():
            message = f"{name} gave no answer within {_ALL_S:.0f} s."
            yield Finding("no_answer", "bad", message, f"Check the network of this host, and the setting: {_SETTINGS}.")
        elif error := attempt.exception():
            message = f"{name} can't be tried: {type(error).__name__}: {error}."
            yield Finding("not_tried", "bad", message, f"Correct the setting: {_SETTINGS}.")
        else:
            yield from attempt.result()


def _tries() -> dict[str, _Try | None]:
    """What is set, by name."""
    return {
        "the address of the site": _url,
        "the mail server": _mail if settings.FAIRSHARE_EMAIL == "smtp" else None,
        "the directory": _directory if settings.FAIRSHARE_LDAP_URL else None,
        "the issuer": _issuer if settings.FAIRSHARE_OIDC_ISSUER else None,
        "the outbound proxy": _proxy if settings.FAIRSHARE_OUTBOUND_PROXY else None,
        "certificates": _certificates,
        "programs": _programs if settings.FAIRSHARE_COLLECT_COMMANDS else None,
        "folders": _folders if settings.FAIRSHARE_COLLECT_FOLDERS else None,
        "secrets of sources": _secrets,
        "open targets": _targets if settings.FAIRSHARE_OUTBOUND_ALLOW_FILE else None,
    }


def _url() -> Iterator[Finding]:
    url = settings.FAIRSHARE_URL
    if not url:
        if settings.PRODUCTION:
            message = "FAIRSHARE_URL is not set: links in mail and webhooks lead nowhere."
            yield Finding("url_missing", "warn", message, "Set it to https:// and the name under which people come.")
        return
    address = split_address(url)
    if settings.PRODUCTION and address.scheme != "https":
        message = f"FAIRSHARE_URL={url} is not https, and in production cookies are sent by https alone."
        yield Finding("url_not_https", "warn", message, "Write https:// in FAIRSHARE_URL.")
    if not is_answered(address.hostname or ""):
        message = f"FAIRSHARE_ALLOWED_HOSTS lacks {address.hostname}, the host of FAIRSHARE_URL: it is answered 400."
        yield Finding("url_host_refused", "bad", message, f"Add {address.hostname} to FAIRSHARE_ALLOWED_HOSTS.")


def _mail() -> Iterator[Finding]:
    server = get_connection(timeout=TRY_S)
    try:
        server.open()  # greets and signs in; no message is sent
    except OSError as error:
        where = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
        message = f"The mail server {where} can't be used: {_reason(error)}."
        remedy = "Start it, or correct FAIRSHARE_EMAIL_HOST, _PORT, _TLS, _USER and _PASSWORD."
        yield Finding("mail_unreachable", "bad", message, remedy)
    finally:
        server.close()


def _directory() -> Iterator[Finding]:
    reason = try_directory()
    if reason:
        message = f"The directory {settings.FAIRSHARE_LDAP_URL} can't be used: {reason}."
        remedy = "Start it, or correct FAIRSHARE_LDAP_URL, _CA_FILE, _BIND_DN and _BIND_PASSWORD."
        yield Finding("directory_unreachable", "bad", message, remedy)


def _issuer() -> Iterator[Finding]:
    try:
        read_issuer(timeout_s=TRY_S)
    except Exception as error:  # of requests, of JSON, or of what the document says
        message = f"The issuer {settings.FAIRSHARE_OIDC_ISSUER} can't be used: {_reason(error)}."
        remedy = "Start it, or correct FAIRSHARE_OIDC_ISSUER; the host may also need FAIRSHARE_OUTBOUND_PROXY."
        yield Finding("issuer_unreachable", "bad", message, remedy)


def _proxy() -> Iterator[Finding]:
    try:
        proxy = parse_proxy(settings.FAIRSHARE_OUTBOUND_PROXY)
    except ValueError:
        return  # a system check says so
    try:
        socket.create_connection((proxy.host, proxy.port), timeout=TRY_S).close()
    except OSError as error:
        message = f"The outbound proxy {proxy.place} can't be reached: {_reason(error)}."
        yield Finding("proxy_unreachable", "bad", message, "Start it, or correct FAIRSHARE_OUTBOUND_PROXY.")


def _certificates() -> Iterator[Finding]:
    for name in ("FAIRSHARE_OUTBOUND_CA_FILE", "FAIRSHARE_LDAP_CA_FILE"):
        file = getattr(settings, name)
        if not file:
            continue
        try:
            ssl.create_default_context(cafile=file)
        except (OSError, ssl.SSLError) as error:
            message = f"{name}={file} can't be used: {_reason(error)}."
            yield Finding(
                "certificate_unusable", "bad", message, f"Name a readable file of certificates (PEM) in {name}."
            )


def _programs() -> Iterator[Finding]:
    for path in settings.FAIRSHARE_COLLECT_COMMANDS:
        if not os.access(path, os.X_OK) or not Path(path).is_file():
            message = f"FAIRSHARE_COLLECT_COMMANDS names {path}, which this user can't run."
            yield Finding("command_missing", "bad", message, "Install it, or correct FAIRSHARE_COLLECT_COMMANDS.")


def _folders() -> Iterator[Finding]:
    for path in settings.FAIRSHARE_COLLECT_FOLDERS:
        if not Path(path).is_dir() or not os.access(path, os.R_OK | os.X_OK):
            message = f"FAIRSHARE_COLLECT_FOLDERS names {path}, which this user can't read."
            yield Finding("folder_missing", "bad", message, "Make it readable, or correct FAIRSHARE_COLLECT_FOLDERS.")


def _secrets() -> Iterator[Finding]:
    """The default folder is made when it is needed."""
    folder = Path(settings.FAIRSHARE_SECRETS_DIR)
    if folder == Path(settings.VAR) / "secrets" and not folder.exists():
        return
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        message = f"FAIRSHARE_SECRETS_DIR={folder} is no folder that this user can read: sources have no tokens."
        yield Finding("secrets_missing", "bad", message, "Make the folder, or correct FAIRSHARE_SECRETS_DIR.")
        return
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            message = f"{path} may be read by others."
            yield Finding("secret_open", "warn", message, f"Run chmod 0600 {path}.")


def _targets() -> Iterator[Finding]:
    file = settings.FAIRSHARE_OUTBOUND_ALLOW_FILE
    if not os.access(file, os.R_OK):
        message = f"FAIRSHARE_OUTBOUND_ALLOW_FILE={file} can't be read: no target is open."
        yield Finding("targets_unreadable", "bad", message, "Make it readable, or correct the setting.")


def _reason(error: BaseException) -> str:
    text = str(error).strip().splitlines() or [type(error).__name__]
    return text[0][:200].rstrip(".")
