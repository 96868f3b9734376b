"""The connection to the mail server: messages are sent within a deadline, and failures of the server are recognised."""

from __future__ import annotations

import contextlib
import logging
import smtplib
import socket
import threading
import time
from datetime import timedelta
from typing import Any

from django.core.mail.backends import smtp

logger = logging.getLogger(__name__)

_CLOSING = 421  # RFC 5321: with 421 the server closes the connection, whatever the command was
UNDER_WAY = timedelta(minutes=2)  # for which a message is left to the worker that sends it


class _Bounded(smtplib.SMTP):
    """An SMTP connection with a total time limit of `timeout` seconds.

    A socket's own timeout restarts with each byte, so a server that sends single bytes would be waited for without end.
    A watchdog shuts the socket down, which also ends TLS.
    """

    _watchdog: threading.Timer | None = None
    _watched: socket.socket
    _is_over: threading.Event  # set when the watchdog ended the conversation

    def connect(self, host: str = "localhost", port: int = 0, source_address: Any = None) -> tuple[int, bytes]:
        began_s, timeout_s, port = time.monotonic(), float(self.timeout or 0), port or self.default_port
        # addresses are tried one after the other
        n_addresses = len(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        sock = socket.create_connection((host, port), timeout_s / n_addresses, source_address)
        sock.settimeout(timeout_s)
        left_s = max(timeout_s - (time.monotonic() - began_s), 0.0)
        self._is_over, self._watched = threading.Event(), sock.dup()
        self._watchdog = threading.Timer(left_s, _shut_down, [self._watched, self._is_over])
        self._watchdog.daemon = True
        self._watchdog.start()
        self.sock = self.secured(sock, host)
        return self.getreply()

    def secured(self, sock: socket.socket, host: str) -> socket.socket:
        """What the conversation begins on: STARTTLS comes later."""
        return sock

    def getreply(self) -> tuple[int, bytes]:
        """Reject an incomplete reply, which smtplib would accept."""
        reply = super().getreply()
        if self._is_over.is_set():
            self.close()
            raise smtplib.SMTPServerDisconnected("The mail server took too long.")
        return reply

    def close(self) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watched.close()
            self._watchdog = None
        super().close()


class _BoundedSsl(_Bounded, smtplib.SMTP_SSL):
    """The watched connection with TLS on top of it from its first byte."""

    def secured(self, sock: socket.socket, host: str) -> socket.socket:
        return self.context.wrap_socket(sock, server_hostname=host)


def _shut_down(sock: socket.socket, is_over: threading.Event) -> None:
    is_over.set()
    with sock, contextlib.suppress(OSError):  # it may be closed already
        sock.shutdown(socket.SHUT_RDWR)


class EmailBackend(smtp.EmailBackend):
    """Django's backend with EMAIL_TIMEOUT as limit for the whole conversation."""

    @property
    def connection_class(self) -> type[smtplib.SMTP]:
        return _BoundedSsl if self.use_ssl else _Bounded

    def close(self) -> None:
        """Close the connection; errors are ignored, because the message has been accepted."""
        try:
            super().close()
        except (smtplib.SMTPException, OSError) as error:
            logger.info("The mail server didn't end its connection properly: %s", type(error).__name__)


class ServerDown(Exception):
    """The server itself fails, rather than rejecting one message: other messages wait for the next run."""


def is_down(error: Exception) -> bool:
    """Whether the server as a whole fails, so that other messages would fail, too, not just this one."""
    if not isinstance(error, OSError):  # SMTPException is a subclass
        return False
    return _CLOSING in _codes(error)


def _codes(error: OSError) -> set[Any]:
    """The codes with which this message was rejected; {421} for all other failures."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return {code for code, _text in error.recipients.values()}
    if isinstance(error, smtplib.SMTPSenderRefused | smtplib.SMTPDataError):
        return {error.smtp_code}
    return {_CLOSING}
