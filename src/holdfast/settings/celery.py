"""The settings of the Celery engine, apart from it: to know their names takes no Celery."""

from __future__ import annotations

import os
from dataclasses import dataclass

from holdfast.settings import setting


@dataclass(frozen=True, slots=True)
class CelerySettings:
    """What only the Celery engine needs."""

    processes: int = setting("HOLDFAST_CELERY_PROCESSES", 0, "Worker processes; 0: two for each core", minimum=0)
    again_s: float = setting("HOLDFAST_BELL_AGAIN_SEC", 30.0, "A bell that was not answered is rung again", minimum=0.1)
    bells_max: int = setting("HOLDFAST_BELLS_MAX", 100_000, "Bells the broker keeps; older are dropped", minimum=100)

    def processes_for(self, concurrency: int) -> int:
        return self.processes or max(1, min(concurrency, 2 * (os.cpu_count() or 1)))
