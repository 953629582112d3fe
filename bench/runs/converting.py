"""Small PDFs through the embedded gateway, two at a time: what one costs beside the bare converter."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
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
from holdfast_systems.conversion.embedded import TASK
from holdfast_systems.conversion.gateway import Gateway, gateway_for
from holdfast_systems.conversion.jobs import build_app
from holdfast_systems.conversion.pdf_to_xml import convert as convert_bare
from holdfast_systems.conversion.settings import ConversionSettings
from holdfast_systems.sandbox.parent import sandbox_for

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
        await gateway.healthy()  # starts the fork server, which a worker does once in its life
        began_cpu_s = _cpu_s()
        worker, stop = Worker(kernel, concurrency=AT_ONCE), asyncio.Event()
        watch = Stopwatch()
        running = asyncio.ensure_future(worker.run(stop))
        while worker.completed < count and not running.done():  # noqa: ASYNC110 - what is settled has no event
            await asyncio.sleep(TICK_S)
        figures = watch.stop(count)
        stop.set()
        await running
        conversion_s = gateway.spent_s / AT_ONCE
        more = {
            "overhead": 1 - conversion_s / figures["seconds"],
            "each_ms": gateway.spent_s / count * 1_000,
            "cpu_ms": (_cpu_s() - began_cpu_s) / count * 1_000,
            "bare_ms": _bare_ms(),
        }
        return await audited(kernel, figures | more)


def _cpu_s() -> float:
    """The processor time of this worker, of its fork server, and of every child that ended."""
    ticks = Path(f"/proc/{sandbox_for(TASK).server_pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    return time.process_time() + sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _bare_ms(rounds: int = 50) -> float:
    """The converter alone, loaded, in this process."""
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
        source.write(pdfs.good(1))
        source.flush()
        convert_bare(source.fileno(), target, 1)
        began_s = time.process_time()
        for _ in range(rounds):
            convert_bare(source.fileno(), target, 1)
        return (time.process_time() - began_s) / rounds * 1_000


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
