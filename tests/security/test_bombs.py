"""Files made to cost, through the real sandboxes: each ends within its limits, and nothing of it stays.

With smaller limits than in production, so that the tests are cheap. The figures of docs/reliability.md are those of
production: python -m tests.security.test_bombs
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.security.bombs import AUDIO, PDFS

from holdfast.errors import CallError
from holdfast_systems.conversion.embedded import PICTURES, TASK, EmbeddedGateway, Limits
from holdfast_systems.grading.audio import AudioLimits, decode

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spec("K30", "C9"),
    pytest.mark.may_skip("/proc"),
    pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="reads /proc"),
]
CPU_S_MAX, WALL_S_MAX = 20.0, 30.0


async def convert(pdf: bytes, folder: Path, limits: Limits, task: str) -> str:
    """How the sandbox of this task ends: a code, or that it was read."""
    source = folder / "a.pdf"
    source.write_bytes(pdf)
    gateway = EmbeddedGateway(limits, reads_scans=False)
    try:
        with source.open("rb", buffering=0) as document, tempfile.TemporaryFile(buffering=0) as output:
            ending = await gateway._read_in_sandbox(document, output, task, limits, 60)
            return f"ended with {ending.status}"
    except CallError as error:
        return error.failure.error_class


def listen(audio: bytes) -> str:
    try:
        return f"{decode(audio, AudioLimits()).duration_s:.0f} s of sound"
    except CallError as error:
        return error.failure.error_class


def children_cpu_s() -> float:
    """What ended sandboxes have cost; those of servers that still run are theirs."""
    from tests.systems.conversion.test_embedded import process

    ticks = 0
    for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
        ticks += sum(map(int, process(int(pid), "stat").rpartition(")")[2].split()[13:15]))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ticks / os.sysconf("SC_CLK_TCK") + used.ru_utime + used.ru_stime


SMALL = Limits(cpu_s=2, page_cpu_s=1.0, wall_s=20.0)


@pytest.mark.parametrize("name", PDFS)
async def test_a_pdf_made_to_cost_ends_within_its_limits(name: str, tmp_path: Path) -> None:
    before = children_cpu_s()
    ending = await convert(PDFS[name](), tmp_path, SMALL, TASK)
    assert children_cpu_s() - before < SMALL.cpu_s + 2.5, ending
    assert ending not in ("LOCAL_PRESSURE", "CONVERTER_BROKEN", "ended with 1"), ending


@pytest.mark.parametrize("name", ["huge picture", "tiling", "page of a mile", "xobject bomb", "form in itself"])
async def test_a_scan_made_to_cost_is_drawn_within_its_limits(name: str, tmp_path: Path) -> None:
    before = children_cpu_s()
    ending = await convert(PDFS[name](), tmp_path, SMALL.of_pictures, PICTURES)
    assert children_cpu_s() - before < SMALL.cpu_s + 2.5, ending
    assert ending not in ("LOCAL_PRESSURE", "CONVERTER_BROKEN", "ended with 1"), ending


# Those that must be encoded first cost more to make than to refuse; tests/systems/grading/test_audio.py has one.
@pytest.mark.parametrize("name", [name for name in AUDIO if not name.endswith((" h", " min"))])
def test_a_recording_made_to_cost_ends_within_its_limits(name: str) -> None:
    audio, before = AUDIO[name](), children_cpu_s()
    ending = listen(audio)
    assert children_cpu_s() - before < CPU_S_MAX and ending not in ("LOCAL_PRESSURE", "DECODER_BROKEN"), ending


def measured() -> Iterator[tuple[str, int, float, float, str]]:
    with tempfile.TemporaryDirectory() as folder:
        for task, limits in ((TASK, Limits()), (PICTURES, Limits().of_pictures)):
            for name, make in PDFS.items():
                pdf, began, cpu = make(), time.monotonic(), children_cpu_s()
                ending = asyncio.run(convert(pdf, Path(folder), limits, task))
                yield name, len(pdf), children_cpu_s() - cpu, time.monotonic() - began, ending
    for name, make in AUDIO.items():
        audio, began, cpu = make(), time.monotonic(), children_cpu_s()
        ending = listen(audio)
        yield name, len(audio), children_cpu_s() - cpu, time.monotonic() - began, ending


def main() -> int:
    worst_cpu = worst_wall = 0.0
    for name, size, cpu, wall, ending in measured():
        print(f"{name:28} {size:>11,} bytes {cpu:6.1f} s CPU {wall:6.1f} s  {ending}", flush=True)
        worst_cpu, worst_wall = max(worst_cpu, cpu), max(worst_wall, wall)
    print(f"worst: {worst_cpu:.1f} s CPU, {worst_wall:.1f} s")
    return int(worst_cpu >= CPU_S_MAX or worst_wall >= WALL_S_MAX)


if __name__ == "__main__":
    sys.exit(main())
