"""Small PDFs through the embedded gateway, two at a time: how much of the wall clock is not conversion."""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import Path

from tests.systems.conversion import pdfs

from bench.runs.kernels import audited, kernel_over
from bench.runs.working import TICK_S
from bench.stopwatch import Figures, Stopwatch, folder
from holdfast.engines.worker import Worker
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.submit import prepare, submit_orders
from holdfast.settings import read
from holdfast_systems.conversion import documents
from holdfast_systems.conversion.documents import KIND, NewDocument
from holdfast_systems.conversion.gateway import Gateway, gateway_for
from holdfast_systems.conversion.jobs import build_app
from holdfast_systems.conversion.settings import ConversionSettings

AT_ONCE = 2


class Timed:
    """A gateway that adds up how long it was asked for."""

    def __init__(self, inner: Gateway) -> None:
        self._inner = inner
        self.spent_s = 0.0

    async def convert(self, source: Path, *, timeout_s: float) -> bytes:
        began = time.perf_counter()
        try:
            return await self._inner.convert(source, timeout_s=timeout_s)
        finally:
            self.spent_s += time.perf_counter() - began

    async def healthy(self) -> bool:
        return await self._inner.healthy()


async def convert(count: int) -> Figures:
    settings = read(ConversionSettings, {"HOLDFAST_DATA_DIR": str(folder())})
    gateway = Timed(gateway_for(None, limits=settings.limits))
    async with kernel_over([build_app(settings, gateway)]) as kernel:
        await _uploaded(kernel, settings, count)
        worker, stop = Worker(kernel, concurrency=AT_ONCE), asyncio.Event()
        watch = Stopwatch()
        running = asyncio.ensure_future(worker.run(stop))
        while worker.completed < count and not running.done():  # noqa: ASYNC110 - what is settled has no event
            await asyncio.sleep(TICK_S)
        figures = watch.stop(count)
        stop.set()
        await running
        conversion_s = gateway.spent_s / AT_ONCE
        overhead = 1 - conversion_s / figures["seconds"]
        return await audited(kernel, figures | {"overhead": overhead, "each_ms": gateway.spent_s / count * 1_000})


async def _uploaded(kernel: Kernel, settings: ConversionSettings, count: int) -> None:
    """Files, documents and jobs as uploads leave them."""
    content = pdfs.good(1)
    digest = hashlib.sha256(content).hexdigest()
    ids = [kernel.new_id() for _ in range(count)]
    kind, now = kernel.registry.kind(KIND), kernel.now()
    for job_id in ids:
        (settings.uploads / f"{job_id}.pdf").write_bytes(content)
    async with kernel.store.transaction() as tx:
        for job_id in ids:
            new = NewDocument(job_id, "ann", "a.pdf", f"{job_id}.pdf", len(content), digest, 2)
            await documents.insert(tx, new, now)
    await submit_orders(
        kernel, [prepare(kind, {"source": f"{job_id}.pdf"}, job_id=job_id, now=now, owner="ann") for job_id in ids]
    )


TASKS = {"convert": convert}
