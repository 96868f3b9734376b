"""Canonical JSON after RFC 8785, and unchanged documents."""

from __future__ import annotations

import base64
import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core import canonical as canonical_json
from apps.core.signing import (
    BadDocument,
    Link,
    PublicKey,
    SigningKey,
    canonical,
    digest_of,
    open_document,
    read_canonical,
    sign_document,
    sign_successor,
)

KEY = SigningKey(bytes(range(32)))
OTHER = SigningKey(bytes(range(1, 33)))
DOCUMENT = {"issuer": "vo-a.example", "version": 41, "shares": [30, 0.1, None], "é": "ü \u20ac"}


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        # Samples of RFC 8785, appendix B, that I-JSON allows and that aren't whole numbers beyond 53 bits.
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555555", "333333333.3333333"),
        ("41b3de4355555556", "333333333.3333334"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
    ],
)
def test_numbers_follow_rfc_8785(bits: str, text: str) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical([value]) == f"[{text}]".encode()


def test_keys_are_sorted_by_utf16_and_text_is_escaped_minimally() -> None:
    """The sample of RFC 8785, 3.2.3: a letter outside the first plane sorts before U+FB33 by its UTF-16 units."""
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    order = ["\\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert (
        canonical(value).decode()
        == "{" + ",".join(f'"{n}":{value[json.loads(chr(34) + n + chr(34))]}' for n in order) + "}"
    )
    assert canonical('\b\t\n\f\r"\\\x01\x1f\u007f/') == b'"\\b\\t\\n\\f\\r\\"\\\\\\u0001\\u001f\x7f/"'


@given(st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: abs(x) < 2**53))
def test_every_double_round_trips(value: float) -> None:
    text = canonical([value, {"a": value * 1e-9}]).decode()
    assert json.loads(text) == [value, {"a": value * 1e-9}]
    assert "E" not in text
    assert "+" not in text


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, 2**53 + 1, 1e300, {1: 2}, {"a": object()}, "\ud800", {"\udfff": 1}]
)
def test_values_without_canonical_form_are_refused(value: object) -> None:
    with pytest.raises(BadDocument):
        canonical(value)


def test_a_document_is_verified_with_its_key_and_has_its_digest() -> None:
    data = sign_document(DOCUMENT, KEY)
    opened = open_document(data, trusted=[KEY.public.fingerprint])
    assert opened.document == DOCUMENT
    assert opened.key == KEY.public
    assert opened.digest == digest_of(DOCUMENT)
    assert sign_document(dict(reversed(list(DOCUMENT.items()))), KEY) == data
    assert open_document(data, trusted=None).key.fingerprint == KEY.public.fingerprint
    assert "".join(KEY.public.groups) == KEY.public.fingerprint


def test_another_key_is_reported_before_parsing() -> None:
    with pytest.raises(BadDocument) as refused:
        open_document(sign_document(DOCUMENT, OTHER), trusted={KEY.public.fingerprint})
    assert refused.value.code == "unknown_key"
    assert OTHER.public.fingerprint[:16] in refused.value.message


def test_one_changed_byte_is_detected() -> None:
    data = sign_document(DOCUMENT, KEY)
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(BadDocument):
            open_document(changed, trusted={KEY.public.fingerprint})


def _signed(body: bytes) -> bytes:
    seal = {
        "chain": [],
        "key": KEY.public.fingerprint,
        "public": base64.b64encode(KEY.public.raw).decode(),
        "signature": base64.b64encode(KEY.sign(body)).decode(),
    }
    return body + b"\n" + canonical(seal) + b"\n"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b'{"a":1,"a":1}', "line 1"),
        (b'{"b":1,"a":1}', "line 1, byte 3"),
        (b'{"a": 1}', "line 1, byte 6"),
        (b'{"a":1.0}', "line 1"),
        (b'{"a":1e2}', "line 1"),
        (b'{"a":NaN}', "line 1"),
        (b'{"a":1e999}', "line 1"),
        (b'{"a":"\\u0041"}', "line 1"),
        (b'{"a":"\xff"}', "line 1"),
        (b"[1]", "line 1"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "line 1, byte"),
        (b'{"a":' + b"9" * 5000 + b"}", "line 1"),
    ],
)
def test_a_non_canonical_signed_document_is_refused_with_the_location(body: bytes, where: str) -> None:
    with pytest.raises(BadDocument) as refused:
        open_document(_signed(body), trusted={KEY.public.fingerprint})
    assert refused.value.fields[0].where.startswith(where)


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"{}\n{}\n", b"{}", b"{}\n{}\n\n", b"\x00" * 100, b"{}\nnull\n", b'{}\n{"key":1}\n']
)
def test_unsigned_input_is_refused(data: bytes) -> None:
    with pytest.raises(BadDocument):
        open_document(data, trusted=None)


def test_a_signature_of_other_content_is_invalid() -> None:
    """Signing starts with a context of its own."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    body = canonical(DOCUMENT)
    assert not KEY.public.holds(body, Ed25519PrivateKey.from_private_bytes(KEY.raw).sign(body))
    assert KEY.public.holds(body, KEY.sign(body))
    assert not PublicKey(b"\x00" * 32).holds(body, KEY.sign(body))


THIRD = SigningKey(bytes(range(2, 34)))
CHAIN = [sign_successor(KEY, OTHER.public), sign_successor(OTHER, THIRD.public)]


def test_an_older_trusted_key_leads_to_the_newer_one() -> None:
    data = sign_document(DOCUMENT, THIRD, CHAIN)
    for trusted in (KEY, OTHER, THIRD):
        opened = open_document(data, trusted={trusted.public.fingerprint})
        assert opened.key == THIRD.public
        assert opened.follows == trusted.public.fingerprint


@pytest.mark.parametrize(
    "chain",
    [
        [],
        CHAIN[:1],
        CHAIN[1:],
        [CHAIN[0], Link(OTHER.public, THIRD.public, CHAIN[0].signature)],
        [CHAIN[0], Link(OTHER.public, THIRD.public, THIRD.sign(b""))],
        [sign_successor(THIRD, KEY.public), sign_successor(KEY, OTHER.public)],
    ],
)
def test_a_chain_with_a_missing_or_forged_link_is_invalid(chain: list[Link]) -> None:
    with pytest.raises(BadDocument) as refused:
        open_document(sign_document(DOCUMENT, THIRD, chain), trusted={KEY.public.fingerprint})
    assert refused.value.code == "unknown_key"


def test_a_cyclic_chain_ends() -> None:
    circle = [sign_successor(OTHER, THIRD.public), sign_successor(THIRD, OTHER.public)]
    with pytest.raises(BadDocument):
        open_document(sign_document(DOCUMENT, THIRD, circle), trusted={KEY.public.fingerprint})


def test_a_private_key_is_never_printed() -> None:
    assert KEY.raw.hex() not in repr(KEY)
    assert str(KEY.raw) not in repr(KEY)
    assert SigningKey.generate() != SigningKey.generate()


@pytest.mark.deep
def test_a_hundred_thousand_entries_are_written_and_read_again() -> None:
    document = {"entries": [[f"{n:032x}", n // 10, f"user{n}", "user", n / 7] for n in range(100_000)]}
    assert read_canonical(canonical(document), "line 1") == document


_odd = st.sampled_from(
    [0.0, -0.0, 1e-4, 1e-5, 5e-324, 2**53, -(2**53), 2.0**53, 0.1, 1.0, -7, 2**52 + 0.5, 3600.0009765625]
)
_number = (
    _odd
    | st.floats(allow_nan=False, allow_infinity=False, max_value=2.0**53, min_value=-(2.0**53))
    | st.integers(-(2**53), 2**53)
)


@given(st.lists(_number))
def test_a_list_of_numbers_is_read_as_it_was_written(numbers: list[float]) -> None:
    written = canonical({"numbers": numbers})
    assert written == b'{"numbers":[' + b",".join(canonical(value) for value in numbers) + b"]}"
    assert canonical(read_canonical(written, "line 1")) == written


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**53 + 1, -(2**53) - 1, 1e300, 10**400, "\ud800", object()])
def test_invalid_values_in_a_list_are_refused(value: object) -> None:
    for rest in ([0.5] * 50, [7] * 50, [7, 0.5] * 25):
        with pytest.raises(BadDocument):
            canonical([*rest, value])


def test_every_character_is_written_as_the_standard_library_writes_it() -> None:
    text = "".join(chr(n) for n in range(0x11000) if not 0xD800 <= n < 0xE000)
    assert canonical(text) == json.dumps(text, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "text", ["1.0", "1e5", "1E5", "-0", "-0.0", "0.00001e1", "9007199254740993", "1e999", "NaN", "01", "1.50", "5e-05"]
)
def test_numbers_in_another_spelling_are_not_canonical(text: str) -> None:
    with pytest.raises(BadDocument):
        read_canonical(f'{{"a":{text}}}'.encode(), "line 1")


def test_little_is_read_before_the_signature() -> None:
    with pytest.raises(BadDocument, match="line 2: has over 65,536 bytes"):
        open_document(b'{}\n{"chain":[' + b"0," * 40_000 + b"0]}\n", trusted=None)


def test_a_document_with_too_many_values_is_refused_before_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'{"a":[' + b"[]," * 999 + b"[]]}"
    assert len(read_canonical(body, "line 1")["a"]) == 1000
    monkeypatch.setattr(canonical_json, "MOST_NESTS", 1000)
    with pytest.raises(BadDocument, match="lists and objects"):
        read_canonical(body, "line 1")
    monkeypatch.setattr(canonical_json, "MOST_NESTS", 2000)
    monkeypatch.setattr(canonical_json, "MOST_DOCUMENT_VALUES", 1000)
    with pytest.raises(BadDocument, match="values"):
        read_canonical(body, "line 1")
