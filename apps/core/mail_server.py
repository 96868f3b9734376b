"""The site's mail server: messages are handed over within a deadline, and errors say whether the server is down."""

from __future__ import annotations

import contextlib
import logging
import smtplib
import socket
import threading
import time
from typing import Any

from django.core.mail.backends import smtp
from django.db import connection

logger = logging.getLogger(__name__)

_CLOSING = 421  # RFC 5321: the server ends the connection whatever it was asked
_LOCK = 0x736D7470  # "smtp"


class _Bounded(smtplib.SMTP):
    """One conversation, at most `timeout` seconds from the first connection on.

    A socket's own timeout begins again with each byte: a server that sends one now and then would be waited for without
    end. Shutting the connection down from outside also ends TLS.
    """

    _watchdog: threading.Timer | None = None
    _watched: socket.socket
    _is_over: threading.Event  # set when the watchdog ended the conversation

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        began_s = time.monotonic()
        n_addresses = len(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))  # they are tried one by one
        sock: socket.socket = super()._get_socket(host, port, timeout / n_addresses)  # type: ignore[misc]
        sock.settimeout(timeout)
        left_s = max(timeout - (time.monotonic() - began_s), 0.0)
        self._is_over, self._watched = threading.Event(), sock.dup()
        self._watchdog = threading.Timer(left_s, _shut_down, [self._watched, self._is_over])
        self._watchdog.daemon = True
        self._watchdog.start()
        return sock

    def getreply(self) -> tuple[int, bytes]:
        """Half an answer, which smtplib would read as a whole one, is none."""
        found = super().getreply()
        if self._is_over.is_set():
            self.close()
            raise smtplib.SMTPServerDisconnected("The mail server took too long.")
        return found

    def close(self) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watched.close()
            self._watchdog = None
        super().close()


class _BoundedSsl(smtplib.SMTP_SSL, _Bounded):
    """The order of its bases puts TLS on top of the bounded connection."""


def _shut_down(sock: socket.socket, is_over: threading.Event) -> None:
    is_over.set()
    with sock, contextlib.suppress(OSError):  # it may have ended by itself
        sock.shutdown(socket.SHUT_RDWR)


class EmailBackend(smtp.EmailBackend):
    """Django's, bounded as a whole by EMAIL_TIMEOUT."""

    @property
    def connection_class(self) -> type[smtplib.SMTP]:
        return _BoundedSsl if self.use_ssl else _Bounded

    def close(self) -> None:
        """A message that was accepted stays accepted, whatever the server does about the good-bye."""
        try:
            super().close()
        except (smtplib.SMTPException, OSError) as error:
            logger.info("The mail server didn't end its connection properly: %s", type(error).__name__)


class ServerDown(Exception):
    """The mail server itself fails, rather than refusing one message: the others wait for the next round."""


def is_free() -> bool:
    """Whether no other process talks to the mail server; none does until the present transaction ends.

    So a server that hangs holds one worker, whatever waits to be sent.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        return bool(cursor.fetchone()[0])


def is_down(error: Exception) -> bool:
    """Whether the server as a whole fails, so that other messages would fail too; else it refused this message."""
    if not isinstance(error, OSError):  # SMTPException is one
        return False
    return _CLOSING in _codes(error)


def _codes(error: OSError) -> set[Any]:
    """The codes with which this message was refused; {421} for every other failure."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return {code for code, _text in error.recipients.values()}
    if isinstance(error, smtplib.SMTPSenderRefused | smtplib.SMTPDataError):
        return {error.smtp_code}
    return {_CLOSING}
