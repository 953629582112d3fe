"""No file hurts the worker: each ends in one code, its child is gone, memory stays bounded."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.systems.conversion import pdfs

from holdfast.core.failure import Failure
from holdfast.errors import CallError
from holdfast_systems.conversion.codes import Code, conversion_failure, public_error
from holdfast_systems.conversion.embedded import TASK, EmbeddedGateway, Limits, failed
from holdfast_systems.sandbox.parent import sandbox_for

pytestmark = [
    pytest.mark.slow,  # processes are started
    pytest.mark.may_skip("/proc"),
    pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="reads /proc"),
]

MB = 1 << 20
ENDLESS = Limits(pages=30_000)  # lets the file of 20,000 pages run for seconds

HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "encrypted": (pdfs.encrypted, "DOCUMENT_ENCRYPTED"),
    "truncated": (pdfs.truncated, "DOCUMENT_DAMAGED"),
    "bit-flipped": (pdfs.bit_flipped, "DOCUMENT_DAMAGED"),
    "empty file": (pdfs.empty, "DOCUMENT_DAMAGED"),
    "header only": (pdfs.header_only, "DOCUMENT_DAMAGED"),
    "html": (pdfs.html, "DOCUMENT_DAMAGED"),
    "no pages": (pdfs.no_pages, "DOCUMENT_EMPTY"),
    "no text": (pdfs.no_text, "DOCUMENT_EMPTY"),
    "20,000 pages": (pdfs.many_pages, "DOCUMENT_TOO_LONG"),
    "flate bomb": (pdfs.flate_bomb, "DOCUMENT_TOO_COMPLEX"),
    "xobject bomb": (pdfs.xobject_bomb, "DOCUMENT_TOO_COMPLEX"),
    "deep nesting": (pdfs.deep_nesting, "DOCUMENT_EMPTY"),
    "deep page tree": (pdfs.deep_page_tree, "DOCUMENT_DAMAGED"),
}


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files would show if any were left."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def stored(folder: Path, pdf: bytes) -> Path:
    path = folder / "in.pdf"
    path.write_bytes(pdf)
    return path


def names(folder: Path) -> list[str]:
    return os.listdir(folder)


def process(pid: int, name: str) -> str:
    """What the system says of a process."""
    return Path(f"/proc/{pid}/{name}").read_text()


def children(pid: int | str | None = None) -> list[int]:
    """The children of the fork server, of this process or of another."""
    pid = pid or sandbox_for(TASK).server_pid
    if pid is None:
        return []
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended since it was listed
            found += map(int, (task / "children").read_text().split())
    return found


def confined(pid: int) -> bool:
    return f"Max address space         {ENDLESS.memory_bytes}" in process(pid, "limits")


def children_cpu_s() -> float:
    """The processor time of all children that have ended. The file of 20,000 pages, left alone, takes many seconds."""
    server = sandbox_for(TASK).server_pid
    if server is None:  # nothing has been converted yet
        return 0.0
    ticks = process(server, "stat").rpartition(")")[2].split()[13:15]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


async def failure_of(source: Path, limits: Limits, timeout_s: float = 60) -> Failure:
    with pytest.raises(CallError) as raised:
        await EmbeddedGateway(limits).convert(source, timeout_s=timeout_s)
    return conversion_failure(raised.value)


async def started(task: asyncio.Future[Any]) -> int:
    """The child of a conversion, once it has limited itself."""
    while not task.done():
        await asyncio.sleep(0)
        for pid in children():
            if confined(pid):
                return pid
    raise AssertionError(f"it ended: {task}")


@pytest.mark.spec("C9")
async def test_a_good_file_is_converted(tmp_path: Path, scratch: Path) -> None:
    xml = await EmbeddedGateway().convert(stored(tmp_path, pdfs.good()), timeout_s=60)
    assert b"<head>Chapter 2</head>" in xml
    assert names(scratch) == [] and children() == []


@pytest.mark.spec("C9")
async def test_a_page_count_that_lies_does_no_harm(tmp_path: Path) -> None:
    xml = await EmbeddedGateway().convert(stored(tmp_path, pdfs.lying_count()), timeout_s=60)
    assert xml.count(b"<pb ") == 1


@pytest.mark.spec("C9", "C2", "C3")
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_file_gives_one_code_and_is_not_run_again(tmp_path: Path, scratch: Path, name: str) -> None:
    make, error_class = HOSTILE[name]
    source = stored(tmp_path, make())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = await failure_of(source, Limits())
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code, message = public_error(found)
    assert (found.error_class, code) == (error_class, Code.GW_4XX), found.message
    assert not found.retryable and not found.faults
    assert "\n" not in message and str(tmp_path) not in message
    assert names(scratch) == [] and children() == []
    assert after - before < 20_000, "the parent's memory grew with the file"


@pytest.mark.spec("C9", "C2")
@pytest.mark.parametrize(
    ("complaint", "error_class", "retryable"),
    [
        ("cannot allocate memory for thread-local data: ABORT", "DOCUMENT_TOO_COMPLEX", False),
        ("error while loading shared libraries: libm.so.6", "CONVERTER_BROKEN", True),
    ],
)
def test_a_loader_that_gave_up_is_the_files_doing_only_for_want_of_memory(
    complaint: str, error_class: str, retryable: bool
) -> None:
    """The bomb ends so in one run of fifteen, when the limit is met by the loader before the library."""
    found = conversion_failure(failed(127, complaint))
    assert (found.error_class, found.retryable) == (error_class, retryable)


@pytest.mark.spec("C9")
async def test_a_file_that_burns_the_processor_is_stopped_and_not_retried(tmp_path: Path) -> None:
    found = await failure_of(stored(tmp_path, pdfs.many_pages()), Limits(pages=30_000, cpu_s=1))
    assert (found.error_class, found.retryable) == ("DOCUMENT_TOO_COMPLEX", False)
    assert "SIGXCPU" in found.message


@pytest.mark.spec("C9")
async def test_output_over_the_limit_is_stopped_and_not_retried(tmp_path: Path) -> None:
    found = await failure_of(stored(tmp_path, pdfs.good(50)), Limits(output_bytes=5_000))
    assert (found.error_class, found.retryable) == ("DOCUMENT_TOO_COMPLEX", False)


@pytest.mark.spec("C9", "C3")
async def test_a_wall_timeout_kills_the_child_and_may_be_retried(tmp_path: Path, scratch: Path) -> None:
    before_s = children_cpu_s()
    found = await failure_of(stored(tmp_path, pdfs.many_pages()), ENDLESS, timeout_s=0.3)
    assert children_cpu_s() - before_s < 2
    assert (found.error_class, found.retryable, found.faults) == ("GATEWAY_TIMEOUT", True, False)
    assert public_error(found)[0] is Code.GW_TIMEOUT
    assert children() == [] and names(scratch) == []


@pytest.mark.spec("C9", "C3")
async def test_a_kill_from_outside_is_local_pressure_and_retried(tmp_path: Path) -> None:
    task = asyncio.ensure_future(failure_of(stored(tmp_path, pdfs.many_pages()), ENDLESS))
    os.kill(await started(task), signal.SIGKILL)
    found = await task
    assert (found.error_class, found.retryable) == ("LOCAL_PRESSURE", True)
    assert public_error(found)[0] is Code.IO_ERROR


@pytest.mark.spec("C9", "C3")
async def test_a_source_that_is_gone_is_a_local_error(tmp_path: Path) -> None:
    found = await failure_of(tmp_path / "gone.pdf", Limits())
    assert public_error(found)[0] is Code.IO_ERROR
    assert found.retryable


@pytest.mark.spec("C9")
async def test_a_cancelled_conversion_leaves_no_child(tmp_path: Path, scratch: Path) -> None:
    source = stored(tmp_path, pdfs.many_pages())
    task = asyncio.ensure_future(EmbeddedGateway(ENDLESS).convert(source, timeout_s=60))
    before_s, pid = children_cpu_s(), await started(task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children_cpu_s() - before_s < 2
    assert not alive(pid) and children() == []
    assert names(scratch) == []


@pytest.mark.spec("C9", "K7")
async def test_the_child_is_alone_poor_and_humble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_JWT_SECRET", "planted-secret")
    source = stored(tmp_path, pdfs.many_pages())
    with tempfile.TemporaryFile() as open_here:
        os.set_inheritable(open_here.fileno(), True)
        task = asyncio.ensure_future(EmbeddedGateway(ENDLESS).convert(source, timeout_s=60))
        pid = await started(task)
        assert os.getsid(pid) == pid
        assert "planted" not in process(pid, "environ")
        assert len(os.listdir(f"/proc/{pid}/fd")) <= 5  # three standard ones, the source's memory
        assert os.getpriority(os.PRIO_PROCESS, pid) >= 5
        limits = process(pid, "limits").split("\n")
        assert [line.split()[-3:-1] for line in limits if "core file" in line] == [["0", "0"]]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.spec("C9", "C5")
async def test_conversions_run_side_by_side(tmp_path: Path) -> None:
    gateway, source = EmbeddedGateway(), stored(tmp_path, pdfs.good())
    results = await asyncio.gather(*(gateway.convert(source, timeout_s=60) for _ in range(6)))
    assert len(set(results)) == 1
    assert children() == []


@pytest.mark.spec("C9", "C4")
async def test_the_embedded_gateway_is_healthy_where_its_library_is() -> None:
    assert await EmbeddedGateway().healthy()


@pytest.mark.slow
@pytest.mark.spec("C9", "C6")
def test_a_killed_worker_takes_its_child_with_it(tmp_path: Path) -> None:
    source = stored(tmp_path, pdfs.many_pages())
    code = (
        "import asyncio, pathlib\n"
        "from holdfast_systems.conversion.embedded import EmbeddedGateway, Limits\n"
        f"gateway = EmbeddedGateway(Limits(pages=30_000))\n"
        f"asyncio.run(gateway.convert(pathlib.Path({str(source)!r}), timeout_s=60))\n"
    )
    worker = subprocess.Popen([sys.executable, "-c", code])
    found: list[int] = []
    try:
        end = time.monotonic() + 30
        while not found and time.monotonic() < end:
            found = [pid for server in children(worker.pid) for pid in children(server) if confined(pid)]
            os.sched_yield()
    finally:
        worker.kill()
        worker.wait()
    end = time.monotonic() + 3
    while alive(found[0]) and time.monotonic() < end:
        os.sched_yield()
    assert not alive(found[0])


def alive(pid: int) -> bool:
    try:
        return process(pid, "stat").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
