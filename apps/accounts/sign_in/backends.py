"""Ways to sign in besides a password kept here: an LDAP directory (identity, password, groups), and other services."""

from __future__ import annotations

import logging
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
from apps.accounts.people import MOST_GROUPS, Person, welcome
from apps.core.clock import now
from apps.core.errors import Unavailable

# --- LDAP directory ---------------------------------------------------------------------------------------------------
log = logging.getLogger(__name__)
PATIENCE_S = 5
_NO_SUCH_OBJECT, _INVALID_CREDENTIALS = 32, 49
_LOGINS = ("uid", "sAMAccountName")
_IDS = ("entryUUID", "objectGUID", "nsUniqueId", "ipaUniqueID")


def look_up(username: str, password: str) -> Person | None:
    """The person, if there is exactly one of that name and the password is theirs.

    Raises:
        Unavailable: the directory doesn't answer, or refuses our own sign-in.
    """
    if not settings.FAIRSHARE_LDAP_URL or not username or not password or "\0" in username:
        return None  # an empty password would be an anonymous bind, which succeeds
    try:
        with _connect(settings.FAIRSHARE_LDAP_BIND_DN, settings.FAIRSHARE_LDAP_BIND_PASSWORD) as connection:
            entry = _find(connection, username)
            if entry is None or not _holds(entry["dn"], password):
                return None
            login = next((text for name in _LOGINS if (text := _first(entry, name))), username)
            return _person(entry, login, _groups(connection, entry, login))
    except (LDAPException, OSError) as error:
        log.error("The directory can't be reached: %s", error)
        message = _("Your site’s sign-in service does not answer: try again in a moment.")
        raise Unavailable(message, code="directory_down") from error


def server() -> Server:
    """Certificates are checked always; an own authority is named by FAIRSHARE_LDAP_CA_FILE."""
    url = settings.FAIRSHARE_LDAP_URL
    tls = Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=settings.FAIRSHARE_LDAP_CA_FILE or None)
    return Server(url, use_ssl=url.lower().startswith("ldaps://"), tls=tls, get_info=NONE, connect_timeout=PATIENCE_S)


def _connect(dn: str, password: str) -> Connection:
    """Open, protected and signed in as dn ("" for anonymous); an exception otherwise."""
    connection = Connection(
        server(),
        user=dn or None,
        password=password or None,
        receive_timeout=PATIENCE_S,
        auto_referrals=False,
        raise_exceptions=False,
        read_only=True,
    )
    connection.open()
    starts_tls = not settings.FAIRSHARE_LDAP_URL.lower().startswith("ldaps://") and settings.FAIRSHARE_LDAP_START_TLS
    if starts_tls and not connection.start_tls():
        raise LDAPException(f"StartTLS is refused: {connection.result}")
    if not connection.bind():
        result = connection.result
        connection.unbind()
        raise _Refused(result["result"], f"{dn or 'anonymous'} may not sign in: {result['description']}")
    return connection


class _Refused(LDAPException):  # type: ignore[misc]
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _holds(dn: str, password: str) -> bool:
    try:
        _connect(dn, password).unbind()
    except _Refused as refusal:
        if refusal.code in (_INVALID_CREDENTIALS, _NO_SUCH_OBJECT):
            return False
        log.warning("Sign-in by the directory: %s", refusal)  # a locked or expired account
        return False
    return True


def _find(connection: Connection, username: str) -> dict[str, Any] | None:
    wanted = settings.FAIRSHARE_LDAP_FILTER.replace("{username}", escape_filter_chars(username))
    found = _search(connection, settings.FAIRSHARE_LDAP_PEOPLE, wanted, 2)
    if len(found) > 1:
        log.warning("The directory has more than one %r: FAIRSHARE_LDAP_FILTER must match only one.", username)
    return found[0] if len(found) == 1 else None


def _groups(connection: Connection, entry: dict[str, Any], username: str) -> list[str]:
    """Distinguished names: those the entry carries itself, and those that name it as a member."""
    names = [str(name) for name in _values(entry, "memberOf")]
    if settings.FAIRSHARE_LDAP_GROUPS:
        wanted = settings.FAIRSHARE_LDAP_GROUP_FILTER.replace("{dn}", escape_filter_chars(entry["dn"]))
        wanted = wanted.replace("{username}", escape_filter_chars(username))
        names += [group["dn"] for group in _search(connection, settings.FAIRSHARE_LDAP_GROUPS, wanted, MOST_GROUPS)]
    return list(dict.fromkeys(names))


def _search(connection: Connection, base: str, wanted: str, limit: int) -> list[dict[str, Any]]:
    attributes = [ALL_ATTRIBUTES, ALL_OPERATIONAL_ATTRIBUTES]
    connection.search(
        base, wanted, search_scope=SUBTREE, attributes=attributes, size_limit=limit, time_limit=PATIENCE_S
    )
    if connection.result["result"] not in (0, 4, _NO_SUCH_OBJECT):  # 4: there are more than asked for
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
    """Without regard to case, as directories have it."""
    found = next((value for key, value in entry["attributes"].items() if key.lower() == name.lower()), None)
    if found is None or found == "":
        return []
    return found if isinstance(found, list | tuple) else [found]


# --- Django's backends ------------------------------------------------------------------------------------------------
class DirectoryBackend(ModelBackend):
    """A user name and a password that the site's directory knows."""

    def authenticate(
        self, request: Any, username: str | None = None, password: str | None = None, **_more: Any
    ) -> User | None:
        person = look_up(username or "", password or "")
        if person is None:
            return None
        return welcome(person, at=now(), via="page", address=request.META.get("REMOTE_ADDR") if request else None)


class ElsewhereBackend(ModelBackend):
    """A person verified by an OIDC issuer or a proxy: it keeps sessions, and checks no password."""

    def authenticate(self, request: Any, **_credentials: Any) -> None:  # type: ignore[override]
        return None
