"""A stage whose module takes longer to import than the stage may take: only in the process of the stage."""

from __future__ import annotations

import sys
import time

from holdfast import App, Job, Retry, SyncContext, stage

if sys.argv[0] == "-c":
    time.sleep(0.8)

app = App("slow-import")


@app.job()
class Late(Job[str]):
    @stage(cpu=True, timeout_s=0.5, retry=Retry(attempts=1))
    def run(self, ctx: SyncContext, what: str) -> str:
        return what
