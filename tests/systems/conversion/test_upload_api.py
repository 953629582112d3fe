"""An upload is taken whole or not at all, under a name of ours, for its owner, within limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from tests.systems.conversion.place import PDF, AnyStore, Place, environment, opened

from holdfast.engines.worker import Worker
from holdfast.http.auth import token_for
from holdfast.stores.clock import Clock
from holdfast_systems.conversion.upload_form import clean_filename

pytestmark = pytest.mark.spec("C1")
BOUNDARY = "the-boundary"
HEAD = (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="x.pdf"\r\n\r\n%PDF-1.7\n').encode()
TAIL = f"\r\n--{BOUNDARY}--\r\n".encode()
FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


async def body(pieces: int, size: int = 64 << 10) -> AsyncIterator[bytes]:
    """A form whose file has about `pieces * size` bytes, of a length that is not declared."""
    yield HEAD
    for _ in range(pieces):
        yield b"x" * size
    yield TAIL


def count(place: Place) -> tuple[int, int]:
    uploads, results = place.files()
    return len(uploads), len(results)


async def test_an_upload_is_answered_with_its_queued_job(place: Place) -> None:
    job = await place.upload()
    assert (job["status"], job["attemptCount"], job["size"]) == ("queued", 0, len(PDF))
    assert place.files()[0] == [f"{job['id']}.pdf"]
    assert await place.job(job["id"]) == job


@pytest.mark.parametrize("name", ["../../etc/passwd", "..\\..\\boot.ini", "a\u202efdp.exe", "", "x" * 3_000])
async def test_no_name_of_a_client_reaches_the_disk(place: Place, name: str) -> None:
    job = await place.upload(name=name or "\t")
    assert UUID(place.files()[0][0].removesuffix(".pdf")) == UUID(job["id"])
    assert "/" not in job["fileName"] and "\\" not in job["fileName"] and len(job["fileName"]) <= 200


def test_a_file_name_is_made_fit_to_be_shown() -> None:
    assert clean_filename("C:\\x\\re\u202eport\n.pdf") == "report.pdf"
    assert clean_filename("../") == "document.pdf"


@pytest.mark.spec("C2")
async def test_a_pdf_is_known_by_its_content_and_not_by_its_name(place: Place) -> None:
    html = await place.client().post("/api/jobs", files={"file": ("fine.pdf", b"<html>" * 500, "application/pdf")})
    assert (html.status_code, html.json()["code"]) == (415, "NOT_PDF")
    assert place.files() == ([], [])
    await place.upload(name="notes.txt")


@pytest.mark.spec("C2")
async def test_the_size_is_limited_while_it_arrives(open_store: Callable[[Clock], AnyStore], tmp_path: Path) -> None:
    env = environment(tmp_path, UPLOAD_BYTES_MAX=str(1 << 20))
    async with opened(open_store, env) as place:
        answer = await place.client().post("/api/jobs", content=body(pieces=32), headers=FORM)
        assert (answer.status_code, answer.json()["code"]) == (413, "TOO_LARGE")
        declared = await place.client().post("/api/jobs", files={"file": ("a.pdf", PDF * 2_000)})
        assert (declared.status_code, declared.json()["code"]) == (413, "TOO_LARGE")
        assert place.files() == ([], [])
        assert (await place.client().post("/api/jobs", content=body(pieces=15), headers=FORM)).status_code == 202


async def test_an_interrupted_upload_leaves_nothing(place: Place) -> None:
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": HEAD + b"x" * (2 << 20), "more_body": True},
        {"type": "http.disconnect"},
    ]
    answers: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        answers.append(message)

    await place.web(_scope(place), receive, send)
    assert answers[0]["status"] == 400
    assert place.files() == ([], [])
    assert (await place.client().get("/api/jobs")).json()["jobs"] == []


async def test_a_cancelled_request_leaves_nothing(place: Place) -> None:
    begun = asyncio.Event()

    async def receive() -> Any:
        if begun.is_set():
            await asyncio.Event().wait()
        begun.set()
        return {"type": "http.request", "body": HEAD + b"x" * (2 << 20), "more_body": True}

    async def send(message: Any) -> None:
        raise AssertionError("nobody is there to answer")

    task = asyncio.ensure_future(place.web(_scope(place), receive, send))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert place.files() == ([], [])


def _scope(place: Place) -> dict[str, Any]:
    token = token_for(place.base, "ann", [])
    headers = {**FORM, "Authorization": f"Bearer {token}", "Host": "holdfast"}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/api/jobs",
        "raw_path": b"/api/jobs",
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("holdfast", 80),
    }


@pytest.mark.spec("C1", "K1")
async def test_the_same_key_and_file_give_one_job(place: Place) -> None:
    headers = {"Idempotency-Key": str(uuid4())}

    async def post(pdf: bytes = PDF) -> httpx.Response:
        return await place.client().post("/api/jobs", files={"file": ("a.pdf", pdf)}, headers=headers)

    first, again, other = await post(), await post(), await post(PDF + b"more")
    assert (first.status_code, again.status_code, again.json()) == (202, 202, first.json())
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (other.status_code, other.json()["code"]) == (409, "NOT_READY")
    assert place.files()[0] == [f"{first.json()['id']}.pdf"]
    assert len((await place.client().get("/api/jobs")).json()["jobs"]) == 1


async def test_at_the_same_moment_too(place: Place) -> None:
    headers = {"Idempotency-Key": str(uuid4())}
    posts = [place.client().post("/api/jobs", files={"file": ("a.pdf", PDF)}, headers=headers) for _ in range(4)]
    answers = await asyncio.gather(*posts)
    assert {one.status_code for one in answers} == {202} and len({one.json()["id"] for one in answers}) == 1
    assert count(place) == (1, 0)


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"%PDF-1.7", {"Content-Type": "application/pdf"}, 415),
        (HEAD + b"cut off", FORM, 400),
        (b"not a form", FORM, 400),
        (HEAD.replace(b'"file"', b'"other"') + TAIL, FORM, 422),
        (HEAD + b"\r\n" + HEAD[:-9] + b"%PDF-1.7\n" + TAIL, FORM, 422),
    ],
    ids=["no form", "cut off", "malformed", "no file", "two files"],
)
async def test_a_form_that_is_not_one_is_refused(
    place: Place, content: bytes, headers: dict[str, str], status: int
) -> None:
    answer = await place.client().post("/api/jobs", content=content, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert place.files() == ([], [])


@pytest.mark.spec("C12")
@pytest.mark.parametrize("form", [{"priority": "now"}, {"webhookUrl": "https://example.org/"}], ids=str)
async def test_a_wish_that_cannot_be_granted_leaves_nothing(place: Place, form: dict[str, str]) -> None:
    answer = await place.client().post("/api/jobs", files={"file": ("a.pdf", PDF)}, data=form)
    assert (answer.status_code, answer.json()["field"]) == (422, next(iter(form)))
    assert place.files() == ([], [])


@pytest.mark.spec("C12", "001.37")
async def test_the_urgent_goes_first(place: Place) -> None:
    low, normal, high = [await place.upload(priority=level) for level in ("low", "normal", "high")]
    await Worker(place.world.kernel, concurrency=1).run_until_idle()
    assert [path.stem for path in place.gateway.calls] == [high["id"], normal["id"], low["id"]]


@pytest.mark.spec("C12")
async def test_a_user_may_not_upload_without_end(open_store: Callable[[Clock], AnyStore], tmp_path: Path) -> None:
    env = environment(tmp_path, USER_UPLOADS_PER_MINUTE="2")
    async with opened(open_store, env) as place:
        await place.upload()
        place.world.clock.advance(20)
        key = {"Idempotency-Key": str(uuid4())}
        second = await place.client().post("/api/jobs", files={"file": ("a.pdf", PDF)}, headers=key)
        third = await place.client().post("/api/jobs", files={"file": ("a.pdf", PDF)})
        assert (third.status_code, third.json()["code"], third.headers["Retry-After"]) == (429, "GW_4XX", "40")
        replayed = await place.client().post("/api/jobs", files={"file": ("a.pdf", PDF)}, headers=key)
        assert replayed.json() == second.json()
        await place.upload(sub="bob")
        place.world.clock.advance(41)
        await place.upload()
        assert count(place) == (4, 0)


@pytest.mark.spec("C12", "001.37")
async def test_a_user_may_not_fill_the_queue(open_store: Callable[[Clock], AnyStore], tmp_path: Path) -> None:
    async with opened(open_store, environment(tmp_path, USER_QUEUED_MAX="2")) as place:
        posts = [place.client().post("/api/jobs", files={"file": ("a.pdf", PDF)}) for _ in range(5)]
        answers = await asyncio.gather(*posts)
        assert sorted(one.status_code for one in answers) == [202, 202, 429, 429, 429]
        assert count(place) == (2, 0)
        await place.work()
        await place.upload()


async def test_nothing_happens_without_a_token(place: Place) -> None:
    client = place.client(None)
    assert (await client.post("/api/jobs", files={"file": ("a.pdf", PDF)})).json()["code"] == "FORBIDDEN"
    assert (await client.get("/api/jobs")).status_code == 401
    assert place.files() == ([], [])


@pytest.mark.slow
async def test_a_large_upload_does_not_fill_the_memory(place: Place) -> None:
    mb, peak_kb = 1 << 20, 0
    before_kb = resident_kb()

    async def large() -> AsyncIterator[bytes]:
        nonlocal peak_kb
        async for piece in body(pieces=99, size=mb):
            yield piece
            peak_kb = max(peak_kb, resident_kb())

    answer = await place.client().post("/api/jobs", content=large(), headers=FORM)
    assert (answer.status_code, answer.json()["size"]) == (202, 99 * mb + 9)
    assert peak_kb - before_kb < 50 * 1_024


def resident_kb() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")
