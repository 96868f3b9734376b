"""Errors in lines of text: changes that a fuzzer of bytes alone seldom makes."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

_TOKEN = re.compile(rb"[A-Za-z0-9_.\-]+")
_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_.\-]{2,30}")
_NASTY_TEXTS = (
    *("", "-1", "0", "NaN", "nan", "inf", "-Infinity", "1e999", "-1e999", "1e308", "1_000", "0x10", "1" * 400, "1.5"),
    *("9" * 19, "-9223372036854775808", "18446744073709551616", "4294967296", ".", "-", "+", "e", "\u0661", "../../x"),
    *("9999-12-31T23:59:59", "9999-12-31T23:59:59Z", "0000-00-00T00:00:00", "2026-03-29T02:30:00", "253402300799"),
    *("2026-10-25T02:30:00", "2024-02-29T00:00:00", "Unknown", "None", "null", "true", "INVALID", "(null)"),
    *("99-99:99:99", "-01:00:00", "UNLIMITED", "P1Y", "PT-5S", "1-0", "[0-999999999]", "4_[1-3,5%2]", "12+1"),
    *("\0", "\x1b[31m", "\u202e", "\u2028", "\ud800", "\ufeff", "'", '"', "\\", "|", ":", ";", ",", "=", "%%", "#"),
    *("<", "&", "&amp;", "&x;", "]]>", "<![CDATA[", "<!--", "<?x?>", "<a>", "</a>", "{", "}", "[", "]", "{}", "[1]"),
    *('<!DOCTYPE a [<!ENTITY b "c">]>', "[" * 3000, '{"a":' * 1500, "<a>" * 200, "x" * 1500, "x" * 70_000),
    *("(n1:ncpus=", "cpu=1,gres/gpu=2,mem=4000M,node=1", "n1/0*99999999999", "1-999999999:1", "a=b c=d", "\r\n"),
)
_NASTY = (
    *(text.encode("utf-8", "surrogatepass") for text in _NASTY_TEXTS),
    *(b"\xff\xfe", b"\xc3", b"\r", b"\n", bytes(range(256))),
)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The text with one to three errors."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(_MUTATIONS)(rng, data)
    return data


def mutated_line(rng: random.Random, data: bytes) -> bytes:
    """The text with errors in one of its lines."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    lines[at] = mutated(rng, lines[at])
    return b"\n".join(lines)


def dictionary(seeds: Iterable[bytes]) -> str:
    """Words of the seeds and values that often go wrong, in the form in which libFuzzer reads a dictionary."""
    words = {word for seed in seeds for word in _WORD.findall(seed)} | {each for each in _NASTY if 0 < len(each) < 64}
    return "".join('"' + "".join(f"\\x{byte:02X}" for byte in word) + '"\n' for word in sorted(words))


def _replace_token(rng: random.Random, data: bytes) -> bytes:
    tokens = list(_TOKEN.finditer(data))
    if not tokens:
        return rng.choice(_NASTY)
    token = rng.choice(tokens)
    return data[: token.start()] + rng.choice(_NASTY) + data[token.end() :]


def _swap_tokens(rng: random.Random, data: bytes) -> bytes:
    tokens = list(_TOKEN.finditer(data))
    if len(tokens) < 2:
        return data
    one, two = sorted(rng.sample(tokens, 2), key=lambda token: token.start())
    return data[: one.start()] + two[0] + data[one.end() : two.start()] + one[0] + data[two.end() :]


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_NASTY) + data[at:]


def _flip(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:start] + data[end:]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:end] + data[start:end] * rng.choice((1, 2, 20)) + data[end:]


def _truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


_MUTATIONS = (_replace_token, _replace_token, _replace_token, _swap_tokens, _insert, _flip, _cut, _repeat, _truncate)
