"""One process that fuzzes one target: `python -m tests.fuzz.session TARGET`, then the arguments of libFuzzer.

With atheris, what is reached decides which inputs are changed further. Without it (`--blind MINUTES FOLDER`), inputs of
a folder are changed blindly.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from tests.fuzz.mutations import mutated_line

if TYPE_CHECKING:
    from tests.fuzz.target import Target

MODULES = {  # of the targets whose names begin so: what is counted, so that nothing else is slow
    "usage": ("apps.usage.parsers",),
    "policy": ("apps.policies.files", "apps.policies.formats", "apps.policies.tree"),
    "signed": ("apps.core.canonical", "apps.core.signing", "apps.federation.documents", "apps.policies.files"),
    "canonical": ("apps.core.canonical",),
    "mapping": ("apps.mapping.rules",),
    "agent": ("agent", "apps.contrib.schedulers.own_values"),
    "numbers": ("apps.core.typed_numbers",),
    "grid": ("apps.accounts.grid_names", "apps.mapping.rules.rule"),
    "listings": ("apps.contrib.jobs.algorithms",),
    "slurm": ("apps.policies.formats.escaped_lines", "apps.priorities.slurm_config", "apps.usage.parsers"),
    "settings": ("apps.policies.settings",),
    "billing": ("apps.usage.parsers.slurm_billing",),
    "cases": ("apps.engine",),
    "scenarios": ("apps.contrib.lab.simulation", "apps.engine.case_fields", "apps.engine.cases"),
    "experiments": ("apps.contrib.lab.experiments",),
}
PATIENCE = 8.0  # coverage is counted in Python, beside other processes
_BY_LINE = 0.4  # of the changes; the others are libFuzzer's own, of bytes and words


def main(arguments: list[str]) -> int:
    name, *options = arguments
    if options[:1] == ["--blind"]:
        return fuzz_blindly(_target(name), float(options[1]), Path(options[2]))
    fuzz_by_coverage(MODULES[name.partition("-")[0]], lambda: _target(name), options)
    return 0


def _target(name: str) -> Target:
    """With settings, but without a database: no reader of foreign text may ask one."""
    os.environ["FAIRSHARE_TESTING"] = "1"
    os.environ["DATABASE_URL"] = "postgres://nobody@localhost:1/none"
    from tests.start import set_up_django

    set_up_django()
    from tests.fuzz.targets import TARGETS

    return TARGETS[name]


def fuzz_by_coverage(modules: Sequence[str], load: Callable[[], Target], options: Sequence[str]) -> None:
    """Fuzz until libFuzzer's options end it, and the process with it. modules: counted, once `load` imports them."""
    import atheris

    target = load()
    for function in _functions_of(modules):
        atheris.instrument_func(function)

    def run(data: bytes) -> None:
        target.run(data, patience=PATIENCE)

    def mutate(data: bytes, most: int, seed: int) -> Any:
        rng = random.Random(seed)
        changed = mutated_line(rng, data) if rng.random() < _BY_LINE else atheris.Mutate(data, most)
        return changed[:most]

    atheris.Setup([sys.argv[0], *options], run, custom_mutator=mutate)
    atheris.Fuzz()


def _functions_of(modules: Sequence[str]) -> list[FunctionType]:
    """All that these modules and those below them have defined; atheris itself takes whole packages."""
    within = tuple(f"{module}." for module in modules)
    functions = (each for each in gc.get_objects() if isinstance(each, FunctionType))
    return [each for each in functions if f"{each.__module__}.".startswith(within)]


def fuzz_blindly(target: Target, minutes: float, folder: Path) -> int:
    """Change the inputs of a folder; one that fails is left in the working directory."""
    rng = random.Random()
    inputs = [path.read_bytes() for path in folder.iterdir()]
    ends_s, n_done = time.monotonic() + 60 * minutes, 0
    while time.monotonic() < ends_s or not n_done:
        data = mutated_line(rng, rng.choice(inputs))[: target.most_bytes]
        with _kept_where_it_fails(data):
            target.run(data, patience=PATIENCE)
        n_done += 1
    print(f"stat::number_of_executed_units: {n_done}", file=sys.stderr)
    return 0


@contextlib.contextmanager
def _kept_where_it_fails(data: bytes) -> Iterator[None]:
    try:
        yield
    except BaseException:
        Path(f"crash-{random.getrandbits(64):016x}").write_bytes(data)
        raise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
