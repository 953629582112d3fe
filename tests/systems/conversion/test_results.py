"""A result is whole or absent, overwritten by nobody, and believed only as far as it is well-formed."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_systems.conversion.results import BadXml, XmlCheck, in_thread, path_of, remove, save

JOB = "0199c0de-0000-7000-8000-000000000001"
XML = b"<a>one</a>"
SHA256 = hashlib.sha256(XML).hexdigest()
NAME = f"{JOB}.{SHA256}.xml"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.spec("C5")
async def test_the_same_content_twice_is_one_file_written_once(tmp_path: Path) -> None:
    first = await save(tmp_path, JOB, XML)
    inode = first.path.stat().st_ino
    assert await save(tmp_path, JOB, XML) == first
    assert first.path.stat().st_ino == inode
    assert names(tmp_path) == [NAME]
    assert (first.size, first.sha256) == (len(XML), hashlib.sha256(XML).hexdigest())


@pytest.mark.spec("C5")
async def test_other_content_overwrites_nothing(tmp_path: Path) -> None:
    first = await save(tmp_path, JOB, XML)
    late = await save(tmp_path, JOB, b"<b/>")
    assert first.path.read_bytes() == XML, "a worker that comes late cannot change what was marked"
    assert late.path.read_bytes() == b"<b/>"


@pytest.mark.spec("C5")
async def test_writers_at_once_leave_whole_files(tmp_path: Path) -> None:
    contents = [b"<a>%d</a>" % number * 1_000 for number in range(8)]
    saved = await asyncio.gather(*(save(tmp_path, JOB, content) for content in contents * 2))
    assert names(tmp_path) == sorted({one.path.name for one in saved})
    assert [one.path.read_bytes() for one in saved] == contents * 2


@pytest.mark.spec("C5", "001.20")
async def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await save(tmp_path, JOB, XML)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError):
        await save(tmp_path, JOB, b"<b/>")
    assert names(tmp_path) == [NAME]
    assert path_of(tmp_path, JOB, SHA256).read_bytes() == XML


@pytest.mark.spec("C5", "001.20")
async def test_content_and_name_are_flushed_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def seen_fsync(handle: int) -> None:
        steps.append("folder" if os.path.isdir(f"/dev/fd/{handle}") else "file")
        fsync(handle)

    def seen_replace(source: str, target: Path) -> None:
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(os, "replace", seen_replace)
    await save(tmp_path, JOB, XML)
    assert steps == ["file", "rename", "folder"]


@pytest.mark.spec("C8")
async def test_a_result_is_removed_once(tmp_path: Path) -> None:
    await save(tmp_path, JOB, XML)
    assert await remove(tmp_path, JOB, SHA256) is True
    assert await remove(tmp_path, JOB, SHA256) is False
    assert names(tmp_path) == []


@pytest.mark.spec("C1")
@pytest.mark.parametrize(
    "job_id",
    ["", "..", "../x", "/etc/passwd", JOB.upper(), f"{{{JOB}}}", f"urn:uuid:{JOB}", JOB.replace("-", ""), f"{JOB}\n"],
)
def test_only_a_uuid_names_a_result(tmp_path: Path, job_id: str) -> None:
    with pytest.raises(ValueError):
        path_of(tmp_path, job_id, SHA256)


@pytest.mark.spec("C1")
@pytest.mark.parametrize("sha256", ["", "..", "../x", SHA256.upper(), SHA256[1:], f"{SHA256}\n"])
def test_only_a_hash_names_a_result(tmp_path: Path, sha256: str) -> None:
    with pytest.raises(ValueError):
        path_of(tmp_path, JOB, sha256)


@pytest.mark.spec("C1")
@given(st.one_of(st.text(), st.uuids().map(str)))
def test_no_job_id_leads_out_of_the_folder(job_id: str) -> None:
    folder = Path("/results")
    try:
        path = path_of(folder, job_id, SHA256)
    except ValueError:
        return
    assert path.parent == folder and path.name == f"{job_id}.{SHA256}.xml"


@pytest.mark.spec("C5")
async def test_a_cancelled_caller_waits_for_its_thread(tmp_path: Path) -> None:
    loop, entered, may_end, ended = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event(), []

    def work() -> None:
        loop.call_soon_threadsafe(entered.set)
        asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result()
        ended.append(True)

    task = asyncio.ensure_future(in_thread(work))
    await entered.wait()
    waited = []
    for _ in range(3):  # asked three times, it still waits
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waited.append(not task.done())
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (waited, ended) == ([True] * 3, [True])


@pytest.mark.spec("C9")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"plain text",
        b"<a>",
        b"<a></b>",
        b"<a/><b/>",
        b"<a>\x01</a>",
        b"<a>&undefined;</a>",
        b"<!DOCTYPE a><a/>",
        b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>',
        b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
        b'<?xml version="1.0" encoding="no-such"?><a/>',
        b"\xff\xfe<\x00a",
    ],
)
@pytest.mark.parametrize("size", [1, 1_000])
def test_what_is_not_plain_well_formed_xml_is_refused(body: bytes, size: int) -> None:
    check = XmlCheck()
    with pytest.raises(BadXml):
        for at in range(0, len(body), size):
            check.feed(body[at : at + size])
        check.close()


@pytest.mark.spec("C9")
@given(st.binary())
def test_no_bytes_break_the_check_itself(body: bytes) -> None:
    check = XmlCheck()
    try:
        check.feed(body)
        check.close()
    except BadXml:
        pass
