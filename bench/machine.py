"""What the machine gave during the run: without it a rate means nothing."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any


def machine(place: Path) -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "fsync_per_s": round(fsync_per_s(place)),
        "load": round(os.getloadavg()[0], 2),
    }


def fsync_per_s(place: Path, seconds: float = 0.5) -> float:
    """How often a small write can be made durable where the databases live."""
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=place) as probe:
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            os.write(probe.fileno(), b"x" * 512)
            os.fsync(probe.fileno())
            count += 1
        return count / (time.perf_counter() - began)
