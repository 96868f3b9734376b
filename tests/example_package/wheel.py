"""The example package as a wheel, made without a build backend: tests install it where nothing can be fetched."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

EXAMPLE = Path(__file__).parent


def build_wheel(folder: Path, source: Path = EXAMPLE) -> Path:
    """What a build backend makes of pyproject.toml: the modules, and what it says of itself."""
    given = tomllib.loads((source / "pyproject.toml").read_text())
    project, contents = given["project"], given["tool"]["setuptools"]
    modules = [f"{module}.py" for module in contents.get("py-modules", ())]
    folders = [source / package for package in contents.get("packages", ())]
    modules += [
        str(path.relative_to(source)) for each in folders for path in each.rglob("*.[ph]*") if path.suffix != ".pyc"
    ]
    name, version = project["name"].replace("-", "_"), project["version"]
    groups = project.get("entry-points", {}).items()
    announced = "\n".join(
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups
    )
    info = f"{name}-{version}.dist-info"
    files = {
        **{module: (source / module).read_text() for module in modules},
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": announced,
    }
    record = "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD"))
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(file, text)
    return path


def install_wheel(wheel: Path, target: Path, *, with_pip: bool) -> None:
    """Into a folder of its own, by pip or, in a tenth of the time, as pip leaves it: unpacked."""
    if with_pip:
        options = ["--no-deps", "--no-index", "--disable-pip-version-check", "--quiet"]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", target, wheel], check=True)
    else:
        with ZipFile(wheel) as archive:
            archive.extractall(target)
