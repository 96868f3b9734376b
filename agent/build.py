"""Build fairshare-agent.pyz, one executable Python file; the same sources give the same bytes on every machine."""

import io
import os
import stat
import sys
import zipfile
from typing import List, Sequence, Tuple

SHEBANG = b"#!/usr/bin/env python3\n"
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip file can hold
_ENTRANCE = b"import sys\n\nfrom agent.command_line import main\n\nsys.exit(main(sys.argv[1:]))\n"


def build() -> bytes:
    """The bytes of the file; not compressed, because compressors differ."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in [("__main__.py", _ENTRANCE), *_sources()]:
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system = 3  # Unix, wherever it is built
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, content)
    return SHEBANG + buffer.getvalue()


def _sources() -> List[Tuple[str, bytes]]:
    here = os.path.dirname(os.path.abspath(__file__))
    sources = []
    for folder, _, files in os.walk(here):
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    inside = os.path.join("agent", os.path.relpath(path, here)).replace(os.sep, "/")
                    sources.append((inside, file.read()))
    return sorted(sources)


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m agent.build OUT", file=sys.stderr)
        return 2
    with open(arguments[0], "wb") as file:
        file.write(build())
    os.chmod(arguments[0], 0o755)  # noqa: S103  executable by everyone
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
