"""`python -m tests.fuzz --minutes 20 [TARGET …]`: fuzz each target in a process of its own, and keep what it found.

New inputs that reach more code are added to tests/fuzz/corpus/TARGET, short ones first, while there is room. An input
that a reader doesn't survive is added, too, and named at the end: mend the reader, then the input stays as its case.
The exit status says whether there was any. Where atheris can't be installed, inputs are changed blindly.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.mutations import dictionary

REPOSITORY = Path(__file__).resolve().parents[2]
MOST_KEPT = 12  # inputs of a target, the shortest first
MOST_KEPT_BYTES = 1_024  # of each
_PATIENCE_S = 60


@dataclass(frozen=True)
class Result:
    """What one target did. broken: files in its corpus that its reader doesn't survive."""

    name: str
    n_runs: int
    n_kept: int
    broken: tuple[Path, ...]
    output: str = ""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    os.environ["FAIRSHARE_TESTING"] = "1"
    with tempfile.TemporaryDirectory(prefix="fairshare-fuzz-") as var:
        os.environ["FAIRSHARE_VAR"] = var
        from tests.start import set_up_django

        set_up_django()
        from tests.fuzz.targets import TARGETS

        names = options.targets or list(TARGETS)
        unknown = sorted(set(names) - set(TARGETS))
        if unknown:
            print(f"No target {', '.join(unknown)}; known are {', '.join(TARGETS)}.", file=sys.stderr)
            return 2
        results = [_fuzz(name, options.minutes * 60 / len(names), Path(var)) for name in names]
    return _report(results)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help="default: all")
    parser.add_argument("--minutes", type=float, default=10.0, help="of all targets together")
    return parser.parse_args(arguments)


def _fuzz(name: str, seconds: float, var: Path) -> Result:
    from tests.fuzz.targets import TARGETS

    target, folder = TARGETS[name], var / name
    seeds, new = folder / "seeds", folder / "new"
    for each in (seeds, new):
        each.mkdir(parents=True)
    for data in [*target.seeds(), *(path.read_bytes() for path in target.kept())]:
        (seeds / name_of(data)).write_bytes(data)
    words = folder / "words"
    words.write_text(dictionary(target.seeds()))
    gains: list[bytes] = []
    if _has_coverage():
        limits = [f"-max_len={target.most_bytes}", "-rss_limit_mb=3000", f"-timeout={_PATIENCE_S}", f"-dict={words}"]
        time_s = f"-max_total_time={max(1, round(seconds))}"
        output = _session(folder, name, [str(new), str(seeds), time_s, "-print_final_stats=1", *limits])
        gains = sorted((path.read_bytes() for path in new.iterdir()), key=len)
    else:
        output = _session(folder, name, ["--blind", str(seconds / 60), str(seeds)])
    n_kept = sum(_keep(target.corpus, data) for data in gains)
    broken = tuple(_keep_broken(target.corpus, path.read_bytes()) for path in _failed(folder))
    n_runs = _count_runs(output)
    print(f"{name}: {n_runs:,} inputs, {n_kept} kept" + "".join(f"\n  BROKEN {path}" for path in broken), flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    return Result(name, n_runs, n_kept, broken, output if broken or not n_runs else "")


def _has_coverage() -> bool:
    return importlib.util.find_spec("atheris") is not None


def _session(folder: Path, name: str, options: list[str]) -> str:
    """What the process printed; it runs in the target's folder, where it leaves what it failed on."""
    command = [sys.executable, "-m", "tests.fuzz.session", name, *options]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def _count_runs(output: str) -> int:
    """From the last line of a session that ended; of one that a finding ended, from its last progress."""
    ended = re.search(r"stat::number_of_executed_units:\s*(\d+)", output)
    return int(ended[1]) if ended else max(map(int, re.findall(r"^#(\d+)\t", output, re.MULTILINE)), default=0)


def _keep(corpus: Path, data: bytes) -> bool:
    """Keep an input if it is short and there is room."""
    corpus.mkdir(parents=True, exist_ok=True)
    if len(data) > MOST_KEPT_BYTES or len(list(corpus.iterdir())) >= MOST_KEPT or (corpus / name_of(data)).exists():
        return False
    (corpus / name_of(data)).write_bytes(data)
    return True


def _keep_broken(corpus: Path, data: bytes) -> Path:
    corpus.mkdir(parents=True, exist_ok=True)
    path = corpus / f"broken-{name_of(data)}"
    path.write_bytes(data)
    return path.relative_to(REPOSITORY)


def _failed(folder: Path) -> list[Path]:
    return sorted(path for kind in ("crash", "timeout", "oom") for path in folder.glob(f"{kind}-*"))


def name_of(data: bytes) -> str:
    """The file name of an input."""
    return hashlib.sha256(data).hexdigest()[:12]


def _report(results: list[Result]) -> int:
    print(f"{sum(each.n_runs for each in results):,} inputs, {sum(each.n_kept for each in results)} of them kept.")
    for each in results:
        if each.output:
            print(f"--- {each.name}\n{each.output[-4000:]}")
    if not _has_coverage():
        print("NOT TESTED: with coverage; inputs were changed blindly, because atheris isn't installed.")
    idle = [each.name for each in results if not each.n_runs]
    if idle:
        print(f"NOT TESTED: {', '.join(idle)}: its process read no input.")
    return int(bool(idle) or any(each.broken for each in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
