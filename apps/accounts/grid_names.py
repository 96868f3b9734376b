"""Canonical spelling of grid certificate names (DN) and memberships (FQAN), so that one person is one account.

A DN is written `CN=Kim,O=Grid` (RFC 2253, most specific part first) or `/O=Grid/CN=Kim` (OpenSSL's one-line form). The
canonical form is the second: short type names, values unescaped and in NFC, and a backslash before characters that
would begin a new part. Values keep their case: grid map files compare them exactly. An FQAN loses the empty parts
`/Role=NULL` and `/Capability=NULL`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_EMAIL = ("E", "EMAIL", "EMAILADDRESS", "PKCS9EMAIL", "1.2.840.113549.1.9.1")
_OF_TYPE = {
    "CN": ("COMMONNAME", "2.5.4.3"),
    "SN": ("SURNAME", "2.5.4.4"),
    "SERIALNUMBER": ("2.5.4.5",),
    "C": ("COUNTRYNAME", "COUNTRY", "2.5.4.6"),
    "L": ("LOCALITYNAME", "LOCALITY", "2.5.4.7"),
    "ST": ("S", "SP", "STATEORPROVINCENAME", "2.5.4.8"),
    "STREET": ("STREETADDRESS", "2.5.4.9"),
    "O": ("ORGANIZATIONNAME", "ORGANIZATION", "2.5.4.10"),
    "OU": ("ORGANIZATIONALUNITNAME", "ORGANIZATIONALUNIT", "2.5.4.11"),
    "T": ("TITLE", "2.5.4.12"),
    "GN": ("G", "GIVENNAME", "2.5.4.42"),
    "DNQ": ("DNQUALIFIER", "2.5.4.46"),
    "DC": ("DOMAINCOMPONENT", "0.9.2342.19200300.100.1.25"),
    "UID": ("USERID", "0.9.2342.19200300.100.1.1"),
}
_TYPES = {
    **{spelled: short for short, others in _OF_TYPE.items() for spelled in (short, *others)},
    **dict.fromkeys(_EMAIL, "emailAddress"),
}
_TYPE = r"(?:OID\.)?(?:[A-Za-z][A-Za-z0-9-]{0,63}|[0-9]{1,9}(?:\.[0-9]{1,9}){1,20})"
_BEGINS = re.compile(rf"[ ]*({_TYPE})[ ]*=[ ]*", re.IGNORECASE)
_ALREADY = re.compile(r"(?:/(?:CN|O|OU|DC|C|L|ST|UID|emailAddress)=[!-*,-.0-~]+(?: [!-*,-.0-~]+)*)+")
_SPECIAL = frozenset(' ,+"\\<>;=/#')
_HEX = re.compile(r"[0-9A-Fa-f]{2}")
_HEX_VALUE = re.compile(r"#(?:0[Cc]|13|16)([0-7][0-9A-Fa-f])((?:[0-9A-Fa-f]{2})*)")
_NOTHING_SAID = re.compile(r"/(?:Role|Capability)=NULL(?=/|$)", re.IGNORECASE)
_ROLE = re.compile(r"/(role|capability)=", re.IGNORECASE)
_SLASHES = re.compile(r"/{2,}")

Rdn = list[tuple[str, str]]  # types and values, several if joined by a plus
_SHORT = frozenset(_TYPES.values())


def canonical_dn(text: str) -> str:
    """The canonical spelling of a DN; other text is only stripped."""
    if "\\" not in text and _ALREADY.fullmatch(text):
        return text
    parts = _read(text)
    return text.strip() if parts is None else _write(parts)


def is_dn(text: str) -> bool:
    """Whether a name can only be a DN: slashes with types, or at least two parts with known types."""
    if "=" not in text:
        return False
    parts = _read(text)
    if parts is None:
        return False
    return text.lstrip().startswith("/") or (
        len(parts) > 1 and all(kind in _SHORT for part in parts for kind, _ in part)
    )


def common_name(dn: str) -> str:
    """The last CN of a DN, which names its owner; empty if there is none."""
    names = [value for part in _read(dn) or [] for kind, value in part if kind == "CN"]
    return names[-1] if names else ""


def canonical_fqan(text: str) -> str:
    """The canonical spelling of an FQAN; `/atlas/Role=NULL/Capability=NULL` becomes `/atlas`."""
    plain, before = text, None
    while plain != before:  # a removal may leave blanks or another empty part at the end
        before = plain
        plain = _NOTHING_SAID.sub("", _SLASHES.sub("/", plain.strip()))
        plain = _ROLE.sub(lambda match: f"/{match[1].capitalize()}=", plain).rstrip("/")
    return plain


def group_of_fqan(fqan: str) -> str:
    """The group without role and capability: `/atlas/de` of `/atlas/de/Role=production`."""
    return _ROLE.split(fqan, maxsplit=1)[0]


def _read(text: str) -> list[Rdn] | None:
    """Parse a DN from the most general to the most specific part; None if it is not a DN."""
    text = text.strip()
    if text.startswith("/"):
        return _read_slashes(text)
    parts = _read_commas(text)
    return None if parts is None else parts[::-1]


def _read_slashes(text: str) -> list[Rdn] | None:
    if not _BEGINS.match(text, 1):
        return None
    parts: list[Rdn] = []
    at = 0
    while at < len(text):
        begins = _BEGINS.match(text, at + 1)
        assert begins is not None  # noqa: S101 - _end_of_value stops before the next type
        stop = _end_of_value(text, begins.end())
        pair = (_type(begins[1]), _value(text[begins.end() : stop], hex_after="x"))
        if text[at] == "/":
            parts.append([pair])
        else:
            parts[-1].append(pair)
        at = stop
    return parts


def _end_of_value(text: str, at: int) -> int:
    """Position of the next slash or plus that is followed by a type."""
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] in "/+" and _BEGINS.match(text, at + 1):
            return at
        else:
            at += 1
    return len(text)


def _read_commas(text: str) -> list[Rdn] | None:
    parts: list[Rdn] = []
    joined = False
    for separator, piece in _pieces(text):
        begins = _BEGINS.match(piece)
        if begins is None:
            return None
        pair = (_type(begins[1]), _quoted_value(piece[begins.end() :]))
        if joined:
            parts[-1].append(pair)
        else:
            parts.append([pair])
        joined = separator == "+"
    return None if joined else parts


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Split at separators that aren't escaped or quoted; yields the separator that follows, and the text."""
    start = at = 0
    quoted = False
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char == '"':
            quoted = not quoted
        elif char in ",;+" and not quoted:
            yield char, text[start:at]
            start = at + 1
        at += 1
    yield "", text[start:]


def _quoted_value(text: str) -> str:
    text = text.lstrip(" ")
    encoded = _HEX_VALUE.fullmatch(text.strip())
    if encoded and 2 * int(encoded[1], 16) == len(encoded[2]):  # the bytes of a short string after its length
        return _clean(_decoded(bytes.fromhex(encoded[2])))
    bare = text.rstrip(" ")
    if len(bare) > 1 and bare.startswith('"') and bare.endswith('"') and not bare.endswith('\\"'):
        text = bare[1:-1]
    return _value(text, hex_after="")


def _value(text: str, *, hex_after: str) -> str:
    """Remove escapes: a backslash before a special character, or before `hex_after` and two hex digits."""
    if "\\" not in text:
        return _clean(text)
    raw = bytearray()
    at = 0
    while at < len(text):
        following = text[at + 1 : at + 2]
        digits = at + 1 + len(hex_after)
        if text[at] != "\\":
            raw += text[at].encode("utf-8", "surrogatepass")
            at += 1
        elif text.startswith(hex_after, at + 1) and _HEX.match(text, digits):
            raw.append(int(text[digits : digits + 2], 16))
            at = digits + 2
        elif following in _SPECIAL and following:
            raw += following.encode()
            at += 2
        else:
            raw += b"\\"
            at += 1
    return _clean(_decoded(bytes(raw)))


def _decoded(raw: bytes) -> str:
    """Decode UTF-8, or Latin-1 for older certificates."""
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _clean(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()


def _type(text: str) -> str:
    name = text.upper().removeprefix("OID.")
    return _TYPES.get(name, name)


def _write(parts: list[Rdn]) -> str:
    return "".join("/" + "+".join(f"{kind}={_escaped(value)}" for kind, value in sorted(part)) for part in parts)


def _escaped(value: str) -> str:
    """Escape characters that a parser would take for the end of the value or for an escape."""
    chars = []
    for at, char in enumerate(value):
        if char == "\\" or (char in "/+" and _BEGINS.match(value, at + 1)):
            chars.append("\\" + char)
        elif unicodedata.category(char) == "Cc":
            chars.append("".join(f"\\x{byte:02X}" for byte in char.encode()))
        else:
            chars.append(char)
    return "".join(chars)
