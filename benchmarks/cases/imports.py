"""Import: how much longer than that of NumPy alone."""

import os
import subprocess
import sys
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from harness.contenders import Builder, Settings
from harness.targets import OURS
from harness.timing import seconds, summary

STATEMENTS = {"numpy": "import numpy", OURS: "import positional_embeddings"}


def importing(settings: Settings) -> list[Builder]:
    """Return the import in fresh processes."""
    return [("import", lambda _: fresh_imports(3 if settings.quick else 11))]


def fresh_imports(rounds: int) -> dict[str, Any]:
    """Alternate fresh processes; the first of each, which fills the caches, is left out."""
    samples: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    with TemporaryDirectory() as compiled:
        # Packages are compiled when they are installed; a checkout may not be.
        env = os.environ | {"PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
        for _ in range(rounds + 1):
            for name, statement in STATEMENTS.items():
                command = [sys.executable, "-c", statement]
                run = partial(subprocess.run, command, env=env, check=True)
                samples[name].append(seconds(run))
    entries = {name: summary(times[1:]) for name, times in samples.items()}
    unit = entries["numpy"]["median"]
    for entry in entries.values():
        entry["ratio"] = entry["median"] / unit
    return {
        "topic": "import",
        "case": "fresh processes",
        "unit": "numpy",
        "beyond": entries[OURS]["median"] - unit,
        "contenders": entries,
    }
