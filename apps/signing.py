"""Documents that can be trusted wherever they lie: canonical JSON, Ed25519 keys, sign and verify.

A signed document is two lines of UTF-8: the document as canonical JSON (RFC 8785), and, in canonical JSON,
`{"chain":[…],"key":FINGERPRINT,"public":BASE64,"signature":BASE64}`, whose signature is over the bytes of the first
line. So a signature is checked before anything of the document is parsed, and survives caches and plain web servers.
The chain says which key followed which, each link signed by the older one: whoever trusts an older key learns of the
newer ones from the document itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from apps.errors import FieldProblem, Invalid

MOST_DEPTH = 200
MOST_LINKS = 64
MOST_SEAL_BYTES = 64 * 1024  # read before anything is known of who wrote it
MOST_VALUES = 12_000_000  # of a document, and how many of these are lists and objects: what it takes to hold them
MOST_NESTS = 2_500_000
_MOST_WHOLE = 2**53  # beyond, doubles skip whole numbers: RFC 8785 asks for I-JSON
_LONG = 32  # values of a list, from which on numpy is faster
_SMALL = 1e-4  # below, Python writes an exponent where RFC 8785 doesn't yet
_KEY_BYTES = 32
_SIGNATURE_BYTES = 64
_CONTEXT = b"fairshare signed document 1\n"  # a signature made for anything else doesn't fit
_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
_TEXTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_BEYOND_BMP = re.compile(rb"[\xf0-\xff]")
_ODD_NUMBER = re.compile(rb"(?<![.0-9])[0-9]{16}|[0-9.][eE]|\.0(?![0-9])")  # what programs write in several ways


class BadDocument(Invalid):
    """What was sent is no signed document, or not of who it says."""

    code = "bad_document"


@dataclass(frozen=True)
class PublicKey:
    """Whose documents they are. `fingerprint`: SHA-256 of the key, hex, as people compare it."""

    raw: bytes

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def groups(self) -> list[str]:
        """The fingerprint as sixteen groups of four, to be read out or compared by eye."""
        return [self.fingerprint[at : at + 4] for at in range(0, 64, 4)]

    def holds(self, data: bytes, signature: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, _CONTEXT + data)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True)
class SigningKey:
    """Signs as one authority. The raw key is a secret: whoever stores it seals it."""

    raw: bytes

    def __repr__(self) -> str:
        return f"SigningKey({self.public.fingerprint[:8]}…)"

    @classmethod
    def generate(cls) -> SigningKey:
        private = Ed25519PrivateKey.generate()
        return cls(private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption()))

    @property
    def public(self) -> PublicKey:
        public = Ed25519PrivateKey.from_private_bytes(self.raw).public_key()
        return PublicKey(public.public_bytes(Encoding.Raw, PublicFormat.Raw))

    def sign(self, data: bytes) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.raw).sign(_CONTEXT + data)


@dataclass(frozen=True)
class Link:
    """An older key says which one follows it."""

    older: PublicKey
    newer: PublicKey
    signature: bytes

    @property
    def holds(self) -> bool:
        return self.older.holds(_succession(self.older, self.newer), self.signature)


def hand_over(older: SigningKey, newer: PublicKey) -> Link:
    """Made once, when a key is replaced, while the older one is still there."""
    return Link(older.public, newer, older.sign(_succession(older.public, newer)))


@dataclass(frozen=True, eq=False)
class Opened:
    """A document whose signature holds. digest: SHA-256 of its canonical bytes, hex. follows: the trusted key that
    handed over to `key`, the same where nothing was handed over, None at a first look.
    """

    document: Mapping[str, Any]
    key: PublicKey
    digest: str
    follows: str | None


def sign_document(document: Mapping[str, Any], key: SigningKey, chain: Sequence[Link] = ()) -> bytes:
    """The two lines. The same document, key and chain give the same bytes."""
    body = canonical(document)
    public = key.public
    links = [
        {"newer": _text(one.newer.raw), "older": _text(one.older.raw), "signature": _text(one.signature)}
        for one in chain
    ]
    seal = {
        "chain": links, "key": public.fingerprint, "public": _text(public.raw), "signature": _text(key.sign(body))
    }  # fmt: skip
    return body + b"\n" + canonical(seal) + b"\n"


def digest_of(document: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical bytes, hex: what the next version names as the one before."""
    return hashlib.sha256(canonical(document)).hexdigest()


def open_document(data: bytes, *, trusted: Collection[str] | None) -> Opened:
    """Check the signature, then read what it covers.

    trusted: fingerprints of keys whose documents are taken; None at a first look, when somebody compares it by eye.

    Raises:
        BadDocument: no two lines, another key, a signature that doesn't hold, or a document that isn't canonical. Codes
            bad_document, unknown_key, bad_signature, not_canonical.
    """
    body, seal = _lines(data)
    key, signature, chain = _read_seal(seal)
    follows = None if trusted is None else _trusted_before(key, chain, trusted)
    if trusted is not None and follows is None:
        raise BadDocument(
            f"The document is signed with another key than the one that is trusted: {key.fingerprint[:16]}…. "
            "Ask its authority by another way whether the key was changed.",
            code="unknown_key",
            fields=[FieldProblem("line 2, key", "is not a trusted key")],
        )
    if not key.holds(body, signature):
        message = "The signature doesn't fit the document: it was changed after it was signed."
        raise BadDocument(message, code="bad_signature", fields=[FieldProblem("line 2, signature", "doesn't hold")])
    return Opened(read_canonical(body, "line 1"), key, hashlib.sha256(body).hexdigest(), follows)


def canonical(value: Any) -> bytes:
    """RFC 8785: keys in order of their UTF-16 units, no blanks, numbers as ECMAScript writes them.

    Raises:
        BadDocument: NaN, infinity, whole numbers of more than 53 bits, half a character pair, what is no JSON.
    """
    has_small: list[float] = []
    plain = _plain(value, has_small, 0)
    return _written(plain).encode() if has_small else orjson.dumps(plain)


def read_canonical(body: bytes, where: str) -> dict[str, Any]:
    """One object from canonical bytes, and only from these: what a careless parser would overlook is refused.

    Raises:
        BadDocument: code not_canonical, naming the first byte that differs.
    """
    shape = _TEXTS.sub(b"", body)
    _refuse_depth(body, shape, where)
    found = _read_plainly(body, shape)
    if found is None:
        found = _read_carefully(body, where)
    if not isinstance(found, dict):
        raise _bad(where, "is no object")
    return found


def _read_plainly(body: bytes, shape: bytes) -> Any:
    """What canonical bytes say; None where that isn't certain without a look at every value.

    Certain: what is written again as the same bytes, when it has no key or number of those that RFC 8785 orders or
    writes in another way. shape: the bytes without their texts.
    """
    if _BEYOND_BMP.search(body) or _ODD_NUMBER.search(shape):
        return None
    try:
        found = orjson.loads(body)
        return found if orjson.dumps(found, option=orjson.OPT_SORT_KEYS) == body else None
    except (ValueError, TypeError, RecursionError):
        return None


def _read_carefully(body: bytes, where: str) -> Any:
    try:
        found = orjson.loads(body)
        again = canonical(found)
    except (ValueError, RecursionError) as error:
        raise _bad(where, f"is no JSON: {error}") from error
    except BadDocument as error:
        raise _bad(where, error.message) from error
    if again != body:
        at = next((i for i, (a, b) in enumerate(zip(again, body, strict=False)) if a != b), min(len(again), len(body)))
        raise _bad(f"{where}, byte {at + 1}", "isn't canonical JSON: blanks, order, numbers or a key that comes twice")
    return found


def _plain(value: Any, has_small: list[float], depth: int) -> Any:
    """Objects in their order and numbers as they will be written; notes floats that need care."""
    kind = type(value)
    if kind is str:
        if not value.isascii():
            _refuse_halves(value)
        return value
    if kind is int:
        if not -_MOST_WHOLE <= value <= _MOST_WHOLE:
            raise BadDocument(f"{value} has more than 53 bits: write it as text.")
        return value
    if value is None or kind is bool:
        return value
    if kind is float:
        return _plain_float(value, has_small)
    if depth > MOST_DEPTH:
        raise BadDocument(f"It nests deeper than {MOST_DEPTH}.")
    if isinstance(value, list | tuple):
        numbers = _plain_numbers(value) if len(value) >= _LONG else None
        return [_plain(inner, has_small, depth + 1) for inner in value] if numbers is None else numbers
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise BadDocument("Keys of an object must be texts.")
        names = sorted(value, key=_utf16)
        return {_plain(name, has_small, depth): _plain(value[name], has_small, depth + 1) for name in names}
    raise BadDocument(f"{kind.__name__} has no form in JSON.")


def _plain_numbers(values: Sequence[Any]) -> list[Any] | None:
    """A long list of numbers as `_plain` gives it one by one; None where one has to be looked at by itself."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return list(values) if min(values) >= -_MOST_WHOLE and max(values) <= _MOST_WHOLE else None
    if not kinds <= {int, float}:
        return None
    try:
        numbers = np.array(values, np.float64)
    except OverflowError:
        return None
    sizes = np.abs(numbers)
    is_whole = numbers == np.rint(numbers)
    if not (sizes < _MOST_WHOLE).all() or ((sizes < _SMALL) & ~is_whole).any():  # so NaN isn't below either
        return None
    if is_whole.all():
        return list(numbers.astype(np.int64).tolist())
    plain = list(values)
    places = np.flatnonzero(is_whole)
    for at, whole in zip(places.tolist(), numbers[places].astype(np.int64).tolist(), strict=True):
        plain[at] = whole
    return plain


def _plain_float(value: float, has_small: list[float]) -> int | float:
    if value != value or value in (float("inf"), float("-inf")):
        raise BadDocument("NaN and infinity have no form in JSON.")
    if value.is_integer():
        if abs(value) > _MOST_WHOLE:
            raise BadDocument(f"{value!r} has more than 53 bits: write it as text.")
        return int(value)
    if abs(value) < _SMALL:
        has_small.append(value)
    return value


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def _refuse_halves(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadDocument("A text has half a character pair.") from error


def _written(plain: Any) -> str:
    """The same as json.dumps, with small numbers as ECMAScript writes them."""
    if isinstance(plain, float):
        return _ecmascript(plain)
    if isinstance(plain, list):
        return "[" + ",".join(map(_written, plain)) + "]"
    if isinstance(plain, dict):
        pairs = (f"{json.dumps(name, ensure_ascii=False)}:{_written(inner)}" for name, inner in plain.items())
        return "{" + ",".join(pairs) + "}"
    return json.dumps(plain, ensure_ascii=False)


def _ecmascript(value: float) -> str:
    """Shortest digits that give the same double: decimal down to 1e-6, then with an exponent without leading zeros.

    Source: ECMA-262, Number::toString; whole numbers never come here.
    """
    text = repr(value)
    if "e" not in text:
        return text
    mantissa, _, exponent = text.partition("e")
    power = int(exponent)
    if power < -6:
        return f"{mantissa.removesuffix('.0')}e{power}"
    sign = "-" if mantissa.startswith("-") else ""
    digits = mantissa.removeprefix("-").replace(".", "").removesuffix("0") or "0"
    return f"{sign}0.{'0' * (-power - 1)}{digits}"


def _refuse_depth(body: bytes, shape: bytes, where: str) -> None:
    """Counted before parsing, because parsers recurse and take what memory they need. shape: without its texts."""
    n_nests = shape.count(b"[") + shape.count(b"{")
    if n_nests > MOST_NESTS or n_nests + shape.count(b",") > MOST_VALUES:
        raise _bad(where, f"has more than {MOST_VALUES:,} values, or {MOST_NESTS:,} lists and objects")
    if n_nests <= MOST_DEPTH:
        return
    brackets = np.frombuffer(shape.translate(None, _NO_BRACKETS), dtype=np.uint8)
    steps = np.where((brackets == ord("[")) | (brackets == ord("{")), 1, -1)
    if int(np.cumsum(steps).max()) > MOST_DEPTH:
        raise _bad(f"{where}, byte {_too_deep(body)}", f"nests deeper than {MOST_DEPTH}")


def _too_deep(body: bytes) -> int:
    depth = 0
    for match in _BRACKETS.finditer(body):
        first = body[match.start()]
        depth += (first in b"[{") - (first in b"]}")
        if depth > MOST_DEPTH:
            return match.start() + 1
    return len(body)


def _lines(data: bytes) -> tuple[bytes, bytes]:
    lines = data.split(b"\n", 3)
    if len(lines) != 3 or lines[2]:
        raise _bad("document", "must be two lines, each ended by a line feed: the document and its signature")
    if len(lines[1]) > MOST_SEAL_BYTES:
        raise _bad("line 2", f"has over {MOST_SEAL_BYTES:,} bytes")
    return lines[0], lines[1]


def _read_seal(line: bytes) -> tuple[PublicKey, bytes, list[Link]]:
    seal = read_canonical(line, "line 2")
    if sorted(seal) != ["chain", "key", "public", "signature"]:
        raise _bad("line 2", "must have chain, key, public and signature, and nothing else")
    key = _key(seal["public"], "line 2, public")
    if seal["key"] != key.fingerprint:
        raise _bad("line 2, key", "is not the fingerprint of `public`")
    return key, _bytes(seal["signature"], _SIGNATURE_BYTES, "line 2, signature"), _read_chain(seal["chain"])


def _read_chain(links: object) -> list[Link]:
    if not isinstance(links, list) or len(links) > MOST_LINKS:
        raise _bad("line 2, chain", f"must be a list of at most {MOST_LINKS} links")
    chain = []
    for at, link in enumerate(links):
        where = f"line 2, chain[{at}]"
        if not isinstance(link, dict) or sorted(link) != ["newer", "older", "signature"]:
            raise _bad(where, "must have newer, older and signature, and nothing else")
        keys = _key(link["older"], f"{where}.older"), _key(link["newer"], f"{where}.newer")
        chain.append(Link(*keys, _bytes(link["signature"], _SIGNATURE_BYTES, f"{where}.signature")))
    return chain


def _trusted_before(key: PublicKey, chain: Sequence[Link], trusted: Collection[str]) -> str | None:
    """The fingerprint of a trusted key that handed over to `key`, itself or link by link; None for none."""
    older_of = {link.newer.fingerprint: link for link in chain}
    at = key.fingerprint
    for _ in range(len(chain) + 1):
        if at in trusted:
            return at
        link = older_of.get(at)
        if link is None or not link.holds:
            return None
        at = link.older.fingerprint
    return None


def _succession(older: PublicKey, newer: PublicKey) -> bytes:
    return canonical({"format": "fairshare-key/1", "newer": _text(newer.raw), "older": _text(older.raw)})


def _key(text: object, where: str) -> PublicKey:
    return PublicKey(_bytes(text, _KEY_BYTES, where))


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bytes(text: object, length: int, where: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != length:
        raise _bad(where, f"must be {length} bytes in base64")
    return raw


def _bad(where: str, message: str) -> BadDocument:
    code = "not_canonical" if "canonical" in message else None
    return BadDocument(f"{where}: {message}.", code=code, fields=[FieldProblem(where, message)])
