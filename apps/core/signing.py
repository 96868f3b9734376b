"""Signed documents: canonical JSON with Ed25519 signatures, which can be verified wherever they were stored.

A signed document is two lines of UTF-8: the document as canonical JSON (RFC 8785), and, in canonical JSON,
`{"chain":[…],"key":FINGERPRINT,"public":BASE64,"signature":BASE64}`, whose signature is over the bytes of the first
line. So the signature is checked before the document is parsed, and survives caches and plain web servers. The chain
lists successive keys, each link signed by the older one: a site that trusts an older key learns the newer ones from the
document itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from apps.core.canonical import BadDocument, bad, canonical, read_canonical
from apps.core.errors import FieldProblem

__all__ = [
    "BadDocument",
    "Link",
    "Opened",
    "PublicKey",
    "SigningKey",
    "canonical",
    "digest_of",
    "open_document",
    "read_canonical",
    "sign_document",
    "sign_successor",
]

MOST_LINKS = 64
MOST_SEAL_BYTES = 64 * 1024  # limit of bytes, applied before anything is known about the author
_KEY_BYTES = 32
_SIGNATURE_BYTES = 64
_CONTEXT = b"fairshare signed document 1\n"  # domain separation: signatures made for other purposes are invalid here


@dataclass(frozen=True)
class PublicKey:
    """The public key of an authority. `fingerprint`: SHA-256 of the key in hex, for comparison by people."""

    raw: bytes

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def groups(self) -> list[str]:
        """The fingerprint as sixteen groups of four, to be read out or compared visually."""
        return [self.fingerprint[at : at + 4] for at in range(0, 64, 4)]

    def holds(self, data: bytes, signature: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, _CONTEXT + data)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True)
class SigningKey:
    """The signing key of an authority. The raw key is secret: store it sealed."""

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
    """The signature of an older key for its successor."""

    older: PublicKey
    newer: PublicKey
    signature: bytes

    @property
    def holds(self) -> bool:
        return self.older.holds(_succession(self.older, self.newer), self.signature)


def sign_successor(older: SigningKey, newer: PublicKey) -> Link:
    """Sign the successor, once, when a key is replaced."""
    return Link(older.public, newer, older.sign(_succession(older.public, newer)))


@dataclass(frozen=True, eq=False)
class Opened:
    """A document with a valid signature. digest: SHA-256 of its canonical bytes, hex.

    follows: the trusted key that preceded `key`; `key` itself without a rotation; None at a first fetch.
    """

    document: Mapping[str, Any]
    key: PublicKey
    digest: str
    follows: str | None


def sign_document(document: Mapping[str, Any], key: SigningKey, chain: Sequence[Link] = ()) -> bytes:
    """The two lines of a signed document. Equal document, key and chain give equal bytes."""
    body = canonical(document)
    public = key.public
    links = [
        {"newer": _text(link.newer.raw), "older": _text(link.older.raw), "signature": _text(link.signature)}
        for link in chain
    ]
    seal = {"chain": links, "key": public.fingerprint, "public": _text(public.raw), "signature": _text(key.sign(body))}
    return body + b"\n" + canonical(seal) + b"\n"


def digest_of(document: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical bytes, hex, by which the next version names its predecessor."""
    return hashlib.sha256(canonical(document)).hexdigest()


def open_document(data: bytes, *, trusted: Collection[str] | None) -> Opened:
    """Check the signature, then read the document.

    trusted: fingerprints of accepted keys; None at a first fetch, when a person compares the key.

    Raises:
        BadDocument: not two lines, another key, an invalid signature, or a document that isn't canonical. Codes
        bad_document, unknown_key, bad_signature, not_canonical.
    """
    lines = data.split(b"\n", 3)
    if len(lines) != 3 or lines[2]:
        raise bad("document", "must be two lines, each ended by a line feed: the document and its signature")
    if len(lines[1]) > MOST_SEAL_BYTES:
        raise bad("line 2", f"has over {MOST_SEAL_BYTES:,} bytes")
    body, seal = lines[0], lines[1]
    key, signature, chain = _read_seal(seal)
    follows = None if trusted is None else _trusted_before(key, chain, trusted)
    if trusted is not None and follows is None:
        raise BadDocument(
            f"The document is signed with an untrusted key: {key.fingerprint[:16]}…. "
            "Ask its site over a separate channel whether the key was changed.",
            code="unknown_key",
            fields=[FieldProblem("line 2, key", "is not a trusted key")],
        )
    if not key.holds(body, signature):
        message = "The signature doesn't fit the document: it was changed after it was signed."
        raise BadDocument(message, code="bad_signature", fields=[FieldProblem("line 2, signature", "doesn't hold")])
    return Opened(read_canonical(body, "line 1"), key, hashlib.sha256(body).hexdigest(), follows)


def _read_seal(line: bytes) -> tuple[PublicKey, bytes, list[Link]]:
    seal = read_canonical(line, "line 2")
    if sorted(seal) != ["chain", "key", "public", "signature"]:
        raise bad("line 2", "must have chain, key, public and signature, and nothing else")
    key = _key(seal["public"], "line 2, public")
    if seal["key"] != key.fingerprint:
        raise bad("line 2, key", "is not the fingerprint of `public`")
    return key, _bytes(seal["signature"], _SIGNATURE_BYTES, "line 2, signature"), _read_chain(seal["chain"])


def _read_chain(links: object) -> list[Link]:
    if not isinstance(links, list) or len(links) > MOST_LINKS:
        raise bad("line 2, chain", f"must be a list of at most {MOST_LINKS} links")
    chain = []
    for at, link in enumerate(links):
        where = f"line 2, chain[{at}]"
        if not isinstance(link, dict) or sorted(link) != ["newer", "older", "signature"]:
            raise bad(where, "must have newer, older and signature, and nothing else")
        keys = _key(link["older"], f"{where}.older"), _key(link["newer"], f"{where}.newer")
        chain.append(Link(*keys, _bytes(link["signature"], _SIGNATURE_BYTES, f"{where}.signature")))
    return chain


def _trusted_before(key: PublicKey, chain: Sequence[Link], trusted: Collection[str]) -> str | None:
    """The fingerprint of a trusted key that is `key`, or leads to it by the chain; None if there is none."""
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
        raise bad(where, f"must be {length} bytes in base64")
    return raw
