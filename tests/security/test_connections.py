"""Slow clients, many clients and greedy ones: bounded, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.security.deployment import Deployment, deployed, served

from holdfast.http.auth import token_for
from holdfast.http.buckets import BURST_S, KEYS_MAX, Buckets, address_of
from holdfast.http.server import FILES_SPARE, ConnectionLimits, connection_limits
from holdfast.settings import Settings, read
from holdfast_systems.conversion.embedded import Limits
from holdfast_systems.conversion.settings import ConversionSettings
from holdfast_systems.grading import audio
from holdfast_systems.grading.settings import MainSettings
from holdfast_systems.review.settings import ReviewSettings

pytestmark = pytest.mark.spec("K30")
HALF_SENT = 300
WRITING = {"text": "Dear Ms Lan, thank you for your letter.", "taskType": "email", "questionId": "q"}
TIMES = ConnectionLimits(connections_max=400, header_s=1.5, body_s=1.5, keep_alive_s=1.5, write_s=2)
HEADER = b"POST /api/submissions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
PARTS = (
    b"",
    b"GE",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ",
    HEADER + b"Content-Length: 500\r\n\r\n{",
    HEADER + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
    b"\r\n\r\n",
)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Deployment]:
    async with deployed(tmp_path) as made:
        yield made


async def drips(port: int, part: bytes) -> bytes:
    """Send a part of a request, then a byte now and then; what came back until the server closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(part)
    answer = b""
    try:
        while True:
            try:
                # One piece at a time: reading to the end would lose what had come when the time is over.
                async with asyncio.timeout(1):
                    piece = await reader.read(4_096)
                answer += piece
                if not piece:
                    return answer
            except TimeoutError:
                writer.write(b"\r\n" if part == PARTS[-1] else b"a")
    except ConnectionError:
        return answer or b"HTTP/1.1 408 reset"
    finally:
        writer.close()


async def asked(port: int, times: int) -> list[float]:
    took = []
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", verify=False) as client:
        for _ in range(times):
            began = monotonic()
            assert (await client.get("/healthz", headers={"Connection": "close"})).status_code == 200
            took.append(monotonic() - began)
    return took


@pytest.mark.slow
async def test_300_half_sent_requests_are_cut_off_and_delay_nobody(place: Deployment) -> None:
    """With the limits that hold by default."""
    by_default = place.settings
    times = (by_default.connections_max, by_default.header_s, by_default.body_s, by_default.keep_alive_s)
    async with served(place, ConnectionLimits(*times)) as port:
        idle = median(await asked(port, 20))
        began = monotonic()
        dripping = [asyncio.create_task(drips(port, PARTS[n % len(PARTS)])) for n in range(HALF_SENT)]
        await asyncio.sleep(0)
        meanwhile = median(await asked(port, 20))
        answers = await asyncio.wait_for(asyncio.gather(*dripping), 30)
        assert all(answer.startswith((b"HTTP/1.1 408", b"HTTP/1.1 40")) for answer in answers), set(answers)
        assert monotonic() - began < 30
        assert meanwhile < 3 * idle + 0.02


async def test_connections_above_the_cap_are_told_so_and_closed(place: Deployment) -> None:
    async with served(place, ConnectionLimits(4, 5, 5, 5)) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
        await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 503 ")
        for _, each in (*held, (None, writer)):
            each.close()


async def test_an_endless_header_and_an_idle_connection_are_closed(place: Deployment) -> None:
    async with served(place, ConnectionLimits(10, 5, 5, keep_alive_s=0.2)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n" + b"X-A: " + b"a" * 70_000)
        assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 431 ")
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_a_connection_that_never_says_anything_is_closed(place: Deployment) -> None:
    async with served(place, ConnectionLimits(10, 0.1, 5, 5)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_a_slow_but_steady_upload_gets_its_time(place: Deployment) -> None:
    """What has come earns more time: 64 KiB are worth four seconds."""
    headers = {"Authorization": f"Bearer {token_for(place.settings, 'ann', ['learner'])}"}

    async def body() -> AsyncIterator[bytes]:
        for _ in range(8):
            yield b"x" * 16_384
            await asyncio.sleep(0.1)

    async with served(place, ConnectionLimits(10, 5, body_s=0.3, keep_alive_s=5)) as port:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, verify=False) as client:
            answer = await client.post("/api/recordings", content=body())
        assert answer.json()["code"] == "AUDIO_UNDECODABLE"


@pytest.mark.slow
async def test_of_300_streams_of_a_learner_all_above_the_cap_are_429(place: Deployment) -> None:
    made = await place.submission("ann")
    async with served(place, TIMES) as port:
        opened = [await _stream(place, port, "ann", made["id"]) for _ in range(300)]
        assert [status for status, _ in opened] == [200] * 50 + [429] * 250
        assert (await asked(port, 1))[0] < 5
        for _, writer in opened:
            writer.close()


async def test_streams_above_the_caps_are_429_until_one_is_closed(tmp_path: Path) -> None:
    async with deployed(tmp_path, HOLDFAST_STREAMS_PER_USER="5", HOLDFAST_STREAMS_MAX="7") as place:
        made = await place.submission("ann")
        others = await place.submission("bob")
        async with served(place, TIMES) as port:
            opened = [await _stream(place, port, "ann", made["id"]) for _ in range(30)]
            statuses = [status for status, _ in opened]
            assert statuses == [200] * 5 + [429] * 25
            bobs = [await _stream(place, port, "bob", others["id"]) for _ in range(4)]
            assert [status for status, _ in bobs] == [200, 200, 429, 429]
            opened[0][1].close()
            async with asyncio.timeout(10):
                while (await _stream(place, port, "ann", made["id"]))[0] != 200:  # noqa: ASYNC110, the server's own time
                    await asyncio.sleep(0.05)


async def _stream(place: Deployment, port: int, sub: str, submission: str) -> tuple[int, Any]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    token = token_for(place.settings, sub, ["learner"])
    request = f"GET /api/submissions/{submission}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(request.encode())
    line = await reader.readline()
    return int(line.split()[1]), writer


async def test_a_greedy_user_is_slowed_down_and_nobody_else(tmp_path: Path) -> None:
    limits = {"HOLDFAST_REQUESTS_PER_USER_SEC": "0.5", "HOLDFAST_REQUESTS_PER_ADDRESS_SEC": "0.7"}
    async with deployed(tmp_path, **limits) as place:
        ann, nobody = place.client("ann", "learner"), place.client()
        answers = [await ann.get("/api/submissions") for _ in range(10)]
        assert [answer.status_code for answer in answers].count(200) == 0.5 * BURST_S
        assert answers[-1].json()["code"] == "RATE_LIMITED" and int(answers[-1].headers["Retry-After"]) >= 1
        assert (await place.client("bob", "learner").get("/api/submissions")).status_code == 200
        strange = [(await nobody.get("/healthz")).status_code for _ in range(10)]
        assert strange.count(200) == 0.7 * BURST_S and strange[-1] == 429
        # A wrong token is no way round it, and a right one is not held up by strangers at the same address.
        assert (await place.bearing("rubbish").get("/api/submissions")).status_code == 429
        assert (await place.client("cid", "learner").get("/api/submissions")).status_code == 200


async def test_what_everybody_may_see_has_the_limits_too_whatever_is_sent_along(tmp_path: Path) -> None:
    limits = {"HOLDFAST_REQUESTS_PER_USER_SEC": "0.5", "HOLDFAST_REQUESTS_PER_ADDRESS_SEC": "0.7"}
    async with deployed(tmp_path, **limits) as place:
        nobody = place.client()
        strange = [(await nobody.get("/healthz")).status_code for _ in range(8)]
        assert strange.count(200) == 0.7 * BURST_S and strange[-1] == 429
        for headers in ({"Authorization": "Bearer rubbish"}, {"Authorization": "x"}, {"Cookie": "holdfast_console=x"}):
            assert (await nobody.get("/login", headers=headers)).status_code == 429, headers
        assert (await nobody.get("/healthz?ticket=x")).status_code == 429
        ann = place.client("ann", "learner")
        known = [(await ann.get(path)).status_code for path in ("/healthz", "/api/submissions") * 4]
        assert known.count(200) == 0.5 * BURST_S and known[-1] == 429, "counted by name, each request once"


async def test_users_of_every_system_have_limits_by_default(tmp_path: Path) -> None:
    for group in (MainSettings, ConversionSettings, ReviewSettings):
        limits = read(group, {}).user_limits
        assert limits.per_minute > 0 and limits.unfinished > 0, group.__name__
    async with deployed(tmp_path, GRADING_UNFINISHED_MAX="110") as place:
        client, body = place.client("ann", "learner"), {"skill": "writing", "payload": WRITING}
        answers = [
            await client.post("/api/submissions", json=body, headers={"Idempotency-Key": str(uuid4())})
            for _ in range(115)
        ]
    assert [answer.status_code for answer in answers] == [201] * 110 + [429] * 5


def test_every_limit_of_the_process_holds_by_default() -> None:
    """Of connections, streams, requests and times; and what one file may cost, below what was promised."""
    by_default = read(Settings, {})
    limits = connection_limits(by_default)
    assert 0 < limits.connections_max <= 10_000
    assert 0 < max(limits.header_s, limits.body_s, limits.keep_alive_s, limits.write_s, limits.linger_s) <= 30
    assert 0 < by_default.streams_per_user < by_default.streams_max
    assert by_default.requests_per_user > 0 and by_default.requests_per_address > 0
    assert Limits().cpu_s < 20 and Limits().wall_s < 30 and audio._CPU_S < 20 and audio._WALL_S < 30


@pytest.mark.parametrize("room", [40, 100, 1_000])
def test_a_burst_of_connections_fits_into_the_files_that_are_left(room: int) -> None:
    """What the system has accepted needs files before it can be refused; without them accept() fails over and over."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/dev/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + room, allowed[1]))
    try:
        limits = connection_limits(read(Settings, {}))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, allowed)
    assert limits.connections_max >= room // 4 and limits.backlog >= 4
    assert used + FILES_SPARE + limits.connections_max + limits.backlog <= used + room + 1


def test_buckets_refill_and_forget() -> None:
    now = [0.0]
    buckets = Buckets(2.0, lambda: now[0])
    assert [buckets.take("a") for _ in range(21)][-1] == 0.5
    now[0] += 1
    assert [buckets.take("a") == 0 for _ in range(3)] == [True, True, False]
    for number in range(KEYS_MAX + 5):
        buckets.take(str(number))
    assert len(buckets._filled) <= KEYS_MAX
    assert Buckets(0).take("a") == 0


def test_addresses_of_one_subscriber_share_a_bucket() -> None:
    assert address_of({"client": ("2001:db8:1:2::7", 1)}) == address_of({"client": ("2001:db8:1:2:ffff::1", 9)})
    assert address_of({"client": ("192.0.2.1", 1)}) != address_of({"client": ("192.0.2.2", 1)})
    assert address_of({"client": None}) == ""
