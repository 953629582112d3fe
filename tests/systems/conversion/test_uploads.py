"""An upload is kept whole, small enough and a PDF, or it leaves nothing."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tracemalloc
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.systems.conversion import pdfs

from holdfast_systems.conversion.codes import Code, ConversionError
from holdfast_systems.conversion.uploads import receive, sweep_partials

NAME = "6f9619ff-8b86-4011-b42d-00c04fc964ff.pdf"
MB = 1 << 20


async def chunks(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.spec("C1")
@pytest.mark.parametrize("size", [1, 7, 1_024, 1 << 20])
async def test_an_upload_is_stored_whole_under_the_callers_name(tmp_path: Path, size: int) -> None:
    data = pdfs.good()
    upload = await receive(chunks(cut(data, size)), tmp_path, limit_bytes=len(data), new_name=NAME)
    assert upload.path == tmp_path / NAME and upload.path.read_bytes() == data
    assert (upload.size, upload.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert names(tmp_path) == [NAME]
    assert upload.path.stat().st_mode & 0o077 == 0


@pytest.mark.spec("C1")
@pytest.mark.parametrize("data", [pdfs.empty(), pdfs.html(), b"x" * 5_000, b" " * 1_024 + pdfs.good(), b"%PDF"])
@pytest.mark.parametrize("size", [3, 4_096])
async def test_what_is_no_pdf_by_content_is_refused_and_leaves_nothing(tmp_path: Path, data: bytes, size: int) -> None:
    with pytest.raises(ConversionError) as raised:
        await receive(chunks(cut(data, size)), tmp_path, limit_bytes=MB, new_name=NAME)
    assert raised.value.code is Code.NOT_PDF
    assert names(tmp_path) == []


@pytest.mark.spec("C1")
@given(before=st.integers(0, 1_019), size=st.integers(1, 2_000))
async def test_the_header_may_begin_anywhere_in_the_first_kilobyte(
    tmp_path_factory: pytest.TempPathFactory, before: int, size: int
) -> None:
    folder, data = tmp_path_factory.mktemp("uploads"), b"\n" * before + pdfs.header_only()
    assert (await receive(chunks(cut(data, size)), folder, limit_bytes=MB, new_name=NAME)).size == len(data)


@pytest.mark.spec("C1")
async def test_the_limit_holds_while_it_arrives(tmp_path: Path) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b"%PDF-1.7\n"
        while True:
            sent += MB
            yield bytes(MB)

    with pytest.raises(ConversionError) as raised:
        await receive(endless(), tmp_path, limit_bytes=3 * MB, new_name=NAME)
    assert raised.value.code is Code.TOO_LARGE
    assert sent <= 4 * MB
    assert names(tmp_path) == []


@pytest.mark.spec("C1")
async def test_html_is_refused_before_the_rest_of_it_arrives(tmp_path: Path) -> None:
    taken = 0

    async def long_page() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(100):
            taken += 1
            yield pdfs.html() * 20

    with pytest.raises(ConversionError):
        await receive(long_page(), tmp_path, limit_bytes=100 * MB, new_name=NAME)
    assert taken == 1


@pytest.mark.spec("C1")
@pytest.mark.parametrize("pieces", [0, 1, 3])
async def test_a_broken_stream_leaves_nothing(tmp_path: Path, pieces: int) -> None:
    async def broken() -> AsyncIterator[bytes]:
        for _ in range(pieces):
            yield b"%PDF-" + bytes(MB)
        raise ConnectionResetError("the client went away")

    with pytest.raises(ConnectionResetError):
        await receive(broken(), tmp_path, limit_bytes=10 * MB, new_name=NAME)
    assert names(tmp_path) == []


@pytest.mark.spec("C1")
@pytest.mark.parametrize("pieces", range(5))
async def test_a_cancellation_at_any_step_leaves_nothing(tmp_path: Path, pieces: int) -> None:
    """The stream cancels its own reader, which hears of it at its next step: a write, or the last rename."""

    async def cancelling() -> AsyncIterator[bytes]:
        for piece in range(4):
            if piece == pieces:
                task.cancel()
            yield b"%PDF-" + bytes(MB)
        if pieces == 4:
            task.cancel()

    task = asyncio.ensure_future(receive(cancelling(), tmp_path, limit_bytes=10 * MB, new_name=NAME))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert names(tmp_path) == []


@pytest.mark.spec("C1")
async def test_a_cancelled_wait_for_the_client_leaves_nothing(tmp_path: Path) -> None:
    arrived = asyncio.Event()

    async def stalled() -> AsyncIterator[bytes]:
        yield b"%PDF-" + bytes(MB)
        arrived.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(receive(stalled(), tmp_path, limit_bytes=10 * MB, new_name=NAME))
    await arrived.wait()
    assert names(tmp_path) == [f".{NAME}.partial"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert names(tmp_path) == []


@pytest.mark.spec("C1")
@pytest.mark.parametrize("name", ["../evil.pdf", "a.pdf", "", ".", f"x/{NAME}", NAME.upper(), f"{NAME}\0"])
async def test_a_name_that_is_no_uuid_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError):
        await receive(chunks([pdfs.good()]), tmp_path, limit_bytes=MB, new_name=name)
    assert names(tmp_path) == []


@pytest.mark.spec("C1")
async def test_an_upload_that_exists_is_never_replaced(tmp_path: Path) -> None:
    first = await receive(chunks([pdfs.good()]), tmp_path, limit_bytes=MB, new_name=NAME)
    with pytest.raises(FileExistsError):
        await receive(chunks([pdfs.two_column()]), tmp_path, limit_bytes=MB, new_name=NAME)
    assert first.path.read_bytes() == pdfs.good()


@pytest.mark.spec("C1")
async def test_a_hundred_megabytes_need_little_memory(tmp_path: Path) -> None:
    async def large() -> AsyncIterator[bytes]:
        yield b"%PDF-1.7\n"
        for _ in range(1_600):
            yield bytes(64 << 10)

    tracemalloc.start()
    try:
        upload = await receive(large(), tmp_path, limit_bytes=200 * MB, new_name=NAME)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert upload.size > 100 * MB - MB
    assert peak < 5 * MB


@pytest.mark.spec("C1")
def test_a_sweep_removes_only_old_partials(tmp_path: Path) -> None:
    old, young, kept = (tmp_path / name for name in (".a.partial", ".b.partial", f"{uuid4()}.pdf"))
    for path, age_s in ((old, 7_200), (young, 60), (kept, 7_200)):
        path.write_bytes(b"x")
        os.utime(path, (1_000_000 - age_s, 1_000_000 - age_s))
    assert sweep_partials(tmp_path, 3_600, now=1_000_000) == 1
    assert names(tmp_path) == sorted([young.name, kept.name])
    assert sweep_partials(tmp_path, 3_600, now=1_000_000) == 0
