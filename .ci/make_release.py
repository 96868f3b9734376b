"""`make release`: all files of a release in dist/, with their checksums. The version is in apps/core/release.py.

Wheel and source release, the list of all packages with their licenses (CycloneDX), and the changes and upgrade notes of
this version. With RELEASE_KEY=FILE the checksums are signed. `make image` makes the image.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

CLONE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CLONE))

from apps.core.release import __version__, read_revision  # noqa: E402 - after the path

_PINNED = re.compile(
    r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==([^ ;]+)[^\n]*((?:\n +--hash=sha256:[0-9a-f]{64}(?: \\)?)*)", re.MULTILINE
)
_HASH = re.compile(r"sha256:([0-9a-f]{64})")


def main() -> int:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else CLONE / "dist"
    changes = changes_of(__version__, (CLONE / "CHANGELOG.md").read_text(encoding="utf-8"))
    revision = read_revision(CLONE)
    if revision.endswith("+") and not os.environ.get("ALLOW_CHANGED"):
        print("Files differ from the revision: commit them, or set ALLOW_CHANGED=1 for a trial.", file=sys.stderr)
        return 1
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    _run("-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(target))
    (target / f"fairshare-web-{__version__}.cdx.json").write_text(bill_of_materials(), encoding="utf-8")
    (target / f"CHANGES-{__version__}.md").write_text(changes, encoding="utf-8")
    shutil.copy(CLONE / "docs/upgrade.md", target / "UPGRADE.md")
    files = sorted(target.iterdir())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (target / "SHA256SUMS").write_text("".join(sums), encoding="ascii")
    key = os.environ.get("RELEASE_KEY")
    if key:
        _run(str(CLONE / ".ci/sign_release.py"), "sign", key, str(target.absolute()))
    print(f"fairshare-web {__version__}, revision {revision or 'of a source release'}:")
    print("".join(sums), end="")
    if not key:
        print("SHA256SUMS isn't signed: RELEASE_KEY names no key.", file=sys.stderr)
    return 0


def changes_of(version: str, changelog: str) -> str:
    """The part of the changelog about a version."""
    part = re.search(rf"^## {re.escape(version)}\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if part is None:
        raise SystemExit(f"CHANGELOG.md has no part about {version}.")
    return f"# fairshare-web {version}\n{part[1].rstrip()}\n"


def bill_of_materials() -> str:
    """All packages that the service runs with, with version, checksums and license, as CycloneDX 1.6."""
    product = Component(
        name="fairshare-web",
        version=__version__,
        type=ComponentType.APPLICATION,
        bom_ref="fairshare-web",
        licenses=[DisjunctiveLicense(id="Apache-2.0")],
    )
    parts = [
        _part(name, version, _HASH.findall(hashes))
        for name, version, hashes in _PINNED.findall((CLONE / "requirements-run.lock").read_text(encoding="utf-8"))
    ]
    bom = Bom(components=parts)
    bom.metadata.component = product
    bom.register_dependency(product, parts)
    return str(make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)) + "\n"


def _part(name: str, version: str, hashes: list[str]) -> Component:
    url = PackageURL("pypi", name=name.lower(), version=version)
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        purl=url,
        bom_ref=str(url),
        licenses=[DisjunctiveLicense(name=text)] if (text := _license(name)) else [],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each) for each in sorted(hashes)],
    )


def _license(name: str) -> str:
    """As the installed package states it: an expression, else its classifiers, else the first line of its license."""
    try:
        facts = metadata.metadata(name)
    except metadata.PackageNotFoundError:  # of another platform
        return ""
    classifiers = facts.get_all("Classifier", [])
    classified = [each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License ::")]
    stated = facts.get("License-Expression") or " / ".join(classified) or facts.get("License") or ""
    for file in metadata.files(name) or ():
        if not stated.strip() and file.name in facts.get_all("License-File", []):
            stated = file.read_text()
    return stated.strip().splitlines()[0][:200] if stated.strip() else ""


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], cwd=CLONE, check=True)


if __name__ == "__main__":
    sys.exit(main())
