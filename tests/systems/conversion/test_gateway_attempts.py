"""How often a gateway is called about one document, by what it answers: once for a 4xx, three times at most else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from tests.kernel.places import rows
from tests.systems.conversion.place import XML, AnyStore, Place, environment, opened

from holdfast.core.failure import Category
from holdfast.stores.clock import Clock
from holdfast_systems.conversion.codes import Code, conversion_failure, public_error
from holdfast_systems.conversion.gateway import GrobidGateway, HttpGateway, _refusal

FULL = (408, 425, 429)
CLIENT_ERRORS = [status for status in range(400, 500) if status not in FULL]
Answers = list[httpx.Response]


class Wire:
    """The gateway's side of the wire: it gives these answers in turn, then XML, and counts."""

    def __init__(self) -> None:
        self.answers: Answers = []
        self.calls = 0

    def connect(self, url: str, timeout_s: float) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200)
        self.calls += 1
        if self.answers:
            return self.answers.pop(0)
        return converted()


def converted() -> httpx.Response:
    return httpx.Response(200, stream=httpx.ByteStream(XML), headers={"Content-Type": "application/xml"})


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture(params=["http", "grobid"])
async def place(
    request: pytest.FixtureRequest, open_store: Callable[[Clock], AnyStore], tmp_path: Path, wire: Wire
) -> AsyncIterator[Place]:
    make = HttpGateway if request.param == "http" else GrobidGateway
    async with opened(open_store, environment(tmp_path), make("http://gateway.test", connect=wire.connect)) as opened_:
        yield opened_


def answers(status: int, times: int, retry_after_s: int | None = None) -> Answers:
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return [httpx.Response(status, headers=headers) for _ in range(times)]


@pytest.mark.spec("C2", "C3", "001.3")
@pytest.mark.parametrize("retry_after_s", [None, 5])
@pytest.mark.parametrize("status", [400, 403, 409, 412, 422])
async def test_a_4xx_is_gw_4xx_after_one_call(place: Place, wire: Wire, status: int, retry_after_s: int | None) -> None:
    wire.answers = answers(status, 5, retry_after_s)
    job = await place.upload()
    await place.world.run_until_idle()
    failed = await place.job(job["id"])
    assert (failed["status"], failed["error"]["code"], failed["attemptCount"]) == ("failed", "GW_4XX", 1)
    assert wire.calls == 1


@pytest.mark.spec("C2", "001.3")
@pytest.mark.parametrize("status", CLIENT_ERRORS)
def test_no_4xx_is_retried_but_those_of_a_full_gateway(status: int) -> None:
    for headers in ({}, {"Retry-After": "5"}, {"X-RateLimit-Remaining": "0", "Retry-After": "5"}):
        failure = conversion_failure(_refusal(status, "no", headers, 0))
        assert (public_error(failure)[0], failure.retryable) == (Code.GW_4XX, False)
        assert failure.category is not Category.RATE_LIMIT, "or it would be waited for"


@pytest.mark.spec("C2", "C3", "001.3", "001.5")
@pytest.mark.parametrize("status", [*FULL, 500, 502])
async def test_a_gateway_that_cannot_now_is_tried_three_times_at_most(place: Place, wire: Wire, status: int) -> None:
    wire.answers = answers(status, 10)
    job = await place.upload()
    await place.world.run_until_idle()
    failed = await place.job(job["id"])
    assert (failed["status"], failed["error"]["code"], failed["attemptCount"]) == ("failed", "GW_5XX", 3)
    assert wire.calls == 3


@pytest.mark.spec("C3", "001.5")
async def test_waits_that_the_gateway_asked_for_are_no_attempts_and_give_none_back(place: Place, wire: Wire) -> None:
    wire.answers = [answer for _ in range(4) for answer in (*answers(429, 1, retry_after_s=30), *answers(502, 1))]
    job = await place.upload()
    await place.world.run_until_idle()
    failed = await place.job(job["id"])
    assert (failed["status"], failed["error"]["code"], failed["attemptCount"]) == ("failed", "GW_5XX", 3)
    assert wire.calls == 6, "three attempts, and three questions that were put off"


@pytest.mark.spec("C3", "001.5")
@pytest.mark.parametrize("status", [429, 503])
async def test_waits_are_bounded_in_calls_and_in_time(place: Place, wire: Wire, status: int) -> None:
    """Where the gateway answers so for ever: a 429 with Retry-After, and GROBID's own 503."""
    wire.answers = answers(status, 5_000, retry_after_s=1)
    job = await place.upload()
    began_ms = place.world.clock.now_ms()
    await place.world.run_until_idle()
    failed = await place.job(job["id"])
    assert (failed["status"], failed["error"]["code"]) == ("failed", "GW_5XX")
    assert wire.calls <= 12
    assert place.world.clock.now_ms() - began_ms <= (3_600 + 10) * 1_000, "the bound, and the breaker's pause"


@pytest.mark.spec("C3", "001.5", "001.19")
async def test_a_wait_beyond_the_bound_fails_a_document_at_the_bound_and_none_before(place: Place, wire: Wire) -> None:
    wire.answers = answers(429, 1, retry_after_s=7_200)
    first = await place.upload()
    await place.work()
    second = await place.upload()
    await place.work()
    place.world.clock.advance(3_599)
    await place.work()
    for job in (first, second):
        shown = await place.job(job["id"])
        assert (shown["status"], shown["error"]) == ("queued", None) and shown["waitingFor"]
    place.world.clock.advance(2)
    await place.work()
    failed, waiting = await place.job(first["id"]), await place.job(second["id"])
    assert (failed["status"], failed["error"]["code"], failed["attemptCount"]) == ("failed", "GW_5XX", 0)
    assert (waiting["status"], wire.calls) == ("failed", 1)


@pytest.mark.spec("C3", "001.8", "001.33")
async def test_attempts_are_counted_alike_by_the_api_and_in_the_readable_view(place: Place, wire: Wire) -> None:
    wire.answers = [*answers(502, 1), converted(), *answers(400, 1), *answers(502, 1)]
    counts = []
    for _ in range(2):
        job = await place.upload()
        await place.world.run_until_idle()
        counts.append((job["id"], "complete" if not counts else "failed"))
    job = await place.upload()
    await place.work()
    counts.append((job["id"], "queued"))
    view = "SELECT CAST(id AS TEXT) AS id, status, attempt_count FROM holdfast_jobs_readable"
    seen = {row["id"]: row for row in await rows(place.kernel.store, view)}
    for (job_id, status), attempts in zip(counts, (2, 1, 1), strict=True):
        shown = await place.job(job_id)
        assert (shown["status"], shown["attemptCount"]) == (status, attempts)
        assert (seen[job_id]["status"], seen[job_id]["attempt_count"]) == (status, attempts)
