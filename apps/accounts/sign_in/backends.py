"""Authentication backends for an LDAP directory (identity, password, groups) and for external sign-in services."""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.utils.translation import gettext as _
from ldap3 import ALL_ATTRIBUTES, ALL_OPERATIONAL_ATTRIBUTES, NONE, SUBTREE, Connection, Server, Tls
from ldap3.core.exceptions import LDAPException
from ldap3.utils.conv import escape_filter_chars

from apps.accounts.models import Identity, User
from apps.accounts.people import MOST_GROUPS_OF_PERSON, Person, update_or_create_user
from apps.core.clock import now
from apps.core.errors import Unavailable

log = logging.getLogger(__name__)
TIMEOUT_S = 5
_NO_SUCH_OBJECT, _INVALID_CREDENTIALS = 32, 49
_LOGINS = ("uid", "sAMAccountName")
_IDS = ("entryUUID", "objectGUID", "nsUniqueId", "ipaUniqueID")


def find_person(username: str, password: str) -> Person | None:
    """Find the person with this user name in the directory, if it is unique and the password is correct.

    Raises:
        Unavailable: the directory doesn't answer, or rejects this service's own sign-in.
    """
    if not settings.FAIRSHARE_LDAP_URL or not username or not password or "\0" in username:
        return None  # an empty password would be an anonymous bind, which succeeds
    try:
        with _connect(settings.FAIRSHARE_LDAP_BIND_DN, settings.FAIRSHARE_LDAP_BIND_PASSWORD) as connection:
            wanted = settings.FAIRSHARE_LDAP_FILTER.replace("{username}", escape_filter_chars(username))
            entries = _search(connection, settings.FAIRSHARE_LDAP_PEOPLE, wanted, 2)
            if len(entries) > 1:
                log.warning("The directory has more than one %r: FAIRSHARE_LDAP_FILTER must match only one.", username)
            entry = entries[0] if len(entries) == 1 else None
            if entry is None or not _is_password(entry["dn"], password):
                return None
            login = next((text for name in _LOGINS if (text := _first(entry, name))), username)
            return _person(entry, login, _groups(connection, entry, login))
    except (LDAPException, OSError) as error:
        log.error("The LDAP directory can't be reached: %s", error)
        message = _("Your site’s sign-in service does not answer: try again in a moment.")
        raise Unavailable(message, code="directory_down") from error


def try_directory() -> str:
    """Why the directory can't be used as the settings say; "" if it answers and lets this site sign in."""
    try:
        _connect(settings.FAIRSHARE_LDAP_BIND_DN, settings.FAIRSHARE_LDAP_BIND_PASSWORD).unbind()
    except (LDAPException, OSError) as error:
        return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return ""


def server() -> Server:
    """The LDAP server. Certificates are always verified; FAIRSHARE_LDAP_CA_FILE names a private authority."""
    url = settings.FAIRSHARE_LDAP_URL
    tls = Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=settings.FAIRSHARE_LDAP_CA_FILE or None)
    return Server(url, use_ssl=url.lower().startswith("ldaps://"), tls=tls, get_info=NONE, connect_timeout=TIMEOUT_S)


def _connect(dn: str, password: str) -> Connection:
    """Open, protect and bind a connection as dn ("" is anonymous).

    Raises:
        LDAPException: any of these steps fails.
    """
    connection = Connection(
        server(),
        user=dn or None,
        password=password or None,
        receive_timeout=TIMEOUT_S,
        auto_referrals=False,
        raise_exceptions=False,
        read_only=True,
    )
    connection.open()
    starts_tls = not settings.FAIRSHARE_LDAP_URL.lower().startswith("ldaps://") and settings.FAIRSHARE_LDAP_START_TLS
    if starts_tls and not connection.start_tls():
        raise LDAPException(f"StartTLS is rejected: {connection.result}")
    if not connection.bind():
        result = connection.result
        connection.unbind()
        raise _BindRejected(result["result"], f"{dn or 'anonymous'} may not sign in: {result['description']}")
    return connection


class _BindRejected(LDAPException):  # type: ignore[misc]
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _is_password(dn: str, password: str) -> bool:
    try:
        _connect(dn, password).unbind()
    except _BindRejected as refusal:
        if refusal.code in (_INVALID_CREDENTIALS, _NO_SUCH_OBJECT):
            return False
        log.warning("Sign-in by the directory: %s", refusal)  # a locked or expired account
        return False
    return True


def _groups(connection: Connection, entry: dict[str, Any], username: str) -> list[str]:
    """Distinguished names of groups: those listed in the entry, and those that list it as a member."""
    names = [str(name) for name in _values(entry, "memberOf")]
    if settings.FAIRSHARE_LDAP_GROUPS:
        values = {"{dn}": escape_filter_chars(entry["dn"]), "{username}": escape_filter_chars(username)}
        # At once: a distinguished name may contain {username}.
        wanted = re.sub(r"\{dn\}|\{username\}", lambda name: values[name[0]], settings.FAIRSHARE_LDAP_GROUP_FILTER)
        names += [
            group["dn"] for group in _search(connection, settings.FAIRSHARE_LDAP_GROUPS, wanted, MOST_GROUPS_OF_PERSON)
        ]
    return list(dict.fromkeys(names))


def _search(connection: Connection, base: str, wanted: str, limit: int) -> list[dict[str, Any]]:
    attributes = [ALL_ATTRIBUTES, ALL_OPERATIONAL_ATTRIBUTES]
    connection.search(base, wanted, search_scope=SUBTREE, attributes=attributes, size_limit=limit, time_limit=TIMEOUT_S)
    if connection.result["result"] not in (0, 4, _NO_SUCH_OBJECT):  # 4: more results than the limit
        raise LDAPException(f"{base}: {connection.result['description']}")
    return [entry for entry in connection.response or [] if entry.get("type") == "searchResEntry"]


def _person(entry: dict[str, Any], username: str, groups: Sequence[str]) -> Person:
    subject = next((text for name in _IDS if (text := _first(entry, name))), entry["dn"].lower())
    return Person(
        source=Identity.Source.LDAP,
        subject=subject,
        username=username,
        first_name=_first(entry, "givenName"),
        last_name=_first(entry, "sn"),
        email=_first(entry, "mail"),
        groups=groups,
    )


def _first(entry: dict[str, Any], name: str) -> str:
    value = next(iter(_values(entry, name)), "")
    return value.hex() if isinstance(value, bytes) else str(value)


def _values(entry: dict[str, Any], name: str) -> Iterable[Any]:
    """Values of an attribute, whose name is compared without case, as in directories."""
    entries = next((value for key, value in entry["attributes"].items() if key.lower() == name.lower()), None)
    if entries is None or entries == "":
        return []
    return entries if isinstance(entries, list | tuple) else [entries]


class DirectoryBackend(ModelBackend):
    """Authenticates a user name and password against the site's directory."""

    def authenticate(
        self, request: Any, username: str | None = None, password: str | None = None, **_more: Any
    ) -> User | None:
        person = find_person(username or "", password or "")
        if person is None:
            return None
        return update_or_create_user(person, at=now(), address=request.META.get("REMOTE_ADDR") if request else None)


class ElsewhereBackend(ModelBackend):
    """Backend of sessions of people verified by an OIDC issuer or a proxy; it checks no passwords."""

    def authenticate(self, request: Any, **_credentials: Any) -> None:  # type: ignore[override]
        return None
