"""The text of a file in whatever encoding and packing it is sent."""

from __future__ import annotations

from apps.core.errors import FieldProblem, Invalid, TooLarge
from apps.core.packing import Bounds, Damaged, Expands, packing_of, unpack_gzip

MOST_POLICY_FILE_BYTES = 512 * 1024 * 1024
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def text_of(content: bytes) -> str:
    """Decode UTF-8 with or without byte order mark, optionally compressed by gzip; line ends become \\n."""
    if len(content) > MOST_POLICY_FILE_BYTES:
        raise TooLarge(f"A file has at most {MOST_POLICY_FILE_BYTES // 2**20} MB.")
    if packing_of(content) == "gzip":
        content = _unpacked(content)
    if content.startswith(_UTF16):
        raise _unreadable("is UTF-16", 1)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _unreadable(f"isn't UTF-8: byte 0x{content[error.start]:02X} in line {line}", line) from None
    if "\0" in text:
        raise _unreadable("is not text: it contains zero bytes", text.count("\n", 0, text.index("\0")) + 1)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _unpacked(content: bytes) -> bytes:
    try:
        return unpack_gzip(content, Bounds(n_bytes=MOST_POLICY_FILE_BYTES))
    except Expands:
        raise TooLarge("The file expands too much when it is unpacked.", code="expands_too_much") from None
    except Damaged as error:
        message = f"The gzip file is damaged at byte {error.position} ({error.why}): copy it again."
        raise Invalid(message, code="corrupt_gzip") from None


def _unreadable(message: str, line: int) -> Invalid:
    text = f"The file {message}; save it as UTF-8 (a spreadsheet calls it CSV UTF-8) and send it again."
    return Invalid(text, code="bad_encoding", fields=[FieldProblem(f"line {line}", message)])
