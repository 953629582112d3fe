"""Both services together: nothing is lost, nothing is graded twice, whatever crashes, repeats or comes late."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.systems.grading.pair import SPEAKING, WRITING, Pair, endpoint, made_engine, opened, village

from holdfast.engines.run import Duties, prepare, run
from holdfast.errors import TransportDown
from holdfast.http.app import create_app
from holdfast.http.auth import token_for
from holdfast.kernel.kernel import Kernel, Registry
from holdfast.kernel.relay import relay_once
from holdfast.providers.outbound import Fetched, OutboundPolicy
from holdfast.settings import Settings
from holdfast.stores.sqlite import SqliteStore
from holdfast.system import OpenSystem
from holdfast.transports.memory import MemoryTransport
from holdfast_systems.grading import submissions
from holdfast_systems.grading.contract import CALLBACK_QUEUE, REQUEST_QUEUE, SLA_MS
from holdfast_systems.grading.grading_service import engine_for, service_app
from holdfast_systems.grading.settings import ServiceSettings
from holdfast_systems.grading.system import grading_main

EMAIL = (
    "Dear Sam,\n\nThank you for your letter. I am writing because I would like to tell you about my new school, which "
    "is near the river. Although it is small, the teachers are friendly and we learn a lot. In the afternoon we often "
    "play football, and sometimes we visit the museum when it rains.\n\nI hope that you can come and see it soon. "
    "Please write to me about your holiday.\n\nBest wishes,\nAnn"
)


@pytest.mark.spec("G1", "G3", "G9", "G10", "G14")
async def test_a_submission_comes_back_graded(pair: Pair) -> None:
    one = await pair.submit()
    await pair.settle()
    stored = await pair.show(one.id)
    assert (stored.state.status, stored.state.priority) == ("REVIEW_REQUIRED", "Medium")
    names = [name for name, _ in await pair.events(one.id)]
    assert names == ["grading.progress", "grading.progress", "grading.review_required"]


@pytest.mark.spec("G10", "G15")
async def test_a_sure_grade_completes_by_itself(sure: Pair) -> None:
    one = await sure.submit()
    await sure.settle()
    state = (await sure.show(one.id)).state
    assert (state.status, state.mode) == ("COMPLETED", "ai")
    assert state.final_result is not None and state.final_result["method"] == "llm"


CRASHES = [
    ("main", "relay.after_claim"),
    ("main", "relay.after_publish"),
    ("main", "relay.after_mark"),
    ("service", "claim.before_commit"),
    ("service", "claim.after_commit"),
    ("service", "attempt.before_handler"),
    ("service", "call.before"),
    ("service", "call.after"),
    ("service", "breaker.before_commit"),
    ("service", "attempt.after_handler"),
    ("service", "settle.before_commit"),
    ("service", "settle.after_commit"),
    ("service", "relay.after_claim"),
    ("service", "relay.after_publish"),
    ("service", "relay.after_mark"),
]


@pytest.mark.spec("G4", "G9", "G14", "G17", "000.37")
@pytest.mark.parametrize(("side", "failpoint"), CRASHES)
async def test_a_crash_anywhere_gives_one_final_result(sure: Pair, side: str, failpoint: str) -> None:
    world = sure.main if side == "main" else sure.service
    world.crash_at(failpoint)
    one = await sure.submit()
    await sure.settle_for(120, turn_s=10)
    assert world.crashes == 1, "the crash happened"
    assert (await sure.show(one.id)).state.status == "COMPLETED"
    assert [name for name, _ in await sure.events(one.id)].count("grading.completed") == 1
    jobs = await sure.query(sure.service, "SELECT state FROM holdfast_jobs")
    assert [job["state"] for job in jobs] == ["succeeded"]


@pytest.mark.spec("G4", "G9", "000.10", "003.11")
async def test_every_message_twice_in_any_order_changes_nothing(sure: Pair) -> None:
    one = await sure.submit()
    await sure.settle()
    before, told = await sure.show(one.id), await sure.events(one.id)
    queues = {f"vstep.exchange/{queue}": queue for queue in (REQUEST_QUEUE, CALLBACK_QUEUE)}
    for message in reversed(list(sure.sent)):
        await sure.deliver(queues[message.destination], message.body, message.id)
    await sure.settle()
    assert await sure.show(one.id) == before and await sure.events(one.id) == told
    calls = await sure.query(sure.service, "SELECT id FROM holdfast_calls")
    assert len(calls) == sure.engine.settings.llm_runs, "nothing is paid for twice"


@pytest.mark.spec("G3", "K10", "000.34")
async def test_a_relay_that_was_down_catches_up(pair: Pair) -> None:
    made = [await pair.submit() for _ in range(7)]
    assert pair.requests == [], "nobody relays, and all of it is saved"
    await pair.settle()
    assert sorted(one["submissionId"] for one in pair.requests) == sorted(one.id for one in made)
    statuses = {(await pair.show(one.id)).state.status for one in made}
    assert statuses == {"REVIEW_REQUIRED"}


@pytest.mark.spec("G3", "G14", "K10", "000.8", "000.34")
async def test_a_broker_that_is_down_loses_nothing_on_either_side(pair: Pair) -> None:
    one = await pair.submit()
    publish = pair.transport.publish

    async def down(message: object) -> None:
        raise TransportDown("the broker restarts")

    pair.transport.publish = down  # type: ignore[method-assign]
    with pytest.raises(TransportDown):
        await relay_once(pair.main.kernel)
    pair.transport.publish = publish  # type: ignore[method-assign]
    await relay_once(pair.main.kernel)
    pair.transport.publish = down  # type: ignore[method-assign]
    with pytest.raises(TransportDown):
        await pair.service.tick()
    assert (await pair.show(one.id)).state.status == "PENDING"
    pair.transport.publish = publish  # type: ignore[method-assign]
    await pair.settle()
    assert (await pair.show(one.id)).state.status == "REVIEW_REQUIRED"


@pytest.mark.spec("G12", "G17", "000.40", "003.7")
async def test_a_result_after_the_deadline_does_not_flip_the_failure(sure: Pair) -> None:
    one = await sure.submit()
    await relay_once(sure.main.kernel)
    await sure.service.work()
    sure.clock.advance(SLA_MS["writing"] / 1_000 + 1)
    await sure.settle()
    state = (await sure.show(one.id)).state
    assert (state.status, state.failure_reason, state.is_late) == ("FAILED", "TIMEOUT", True)
    assert state.ai_result is not None and state.final_result is None


@pytest.mark.spec("G6", "G9", "K8", "000.17", "000.23", "002.17")
async def test_a_replay_before_the_deadline_completes_the_submission(sure: Pair) -> None:
    sure.service.script(sure.engine.llm, refusals=1)
    one = await sure.submit()
    await sure.settle()
    assert (await sure.show(one.id)).state.failure_reason == "LLM_FAIL"
    case = (await sure.service.dead_letters())[0]
    await sure.service.mend_and_replay(str(case["id"]))
    await sure.settle()
    state = (await sure.show(one.id)).state
    assert (state.status, state.failure_reason, state.is_late) == ("COMPLETED", None, False)
    assert state.final_result is not None and sure.callbacks[-1]["kind"] == "completed"
    told = [name for name, _ in await sure.events(one.id) if name != "grading.progress"]
    assert told == ["grading.failed", "grading.completed"]


@pytest.mark.spec("G6", "G12", "000.17", "000.23")
async def test_a_replay_after_the_deadline_is_kept_as_late_and_the_failure_stands(sure: Pair) -> None:
    sure.service.script(sure.engine.llm, refusals=1)
    one = await sure.submit()
    await sure.settle()
    case = (await sure.service.dead_letters())[0]
    sure.clock.advance(SLA_MS["writing"] / 1_000 + 1)
    await sure.service.mend_and_replay(str(case["id"]))
    await sure.settle()
    state = (await sure.show(one.id)).state
    assert (state.status, state.failure_reason, state.is_late) == ("FAILED", "LLM_FAIL", True)
    assert state.ai_result is not None and state.final_result is None


@pytest.mark.spec("G6", "G15", "K6")
async def test_a_failing_grade_transcribes_and_fetches_only_once(tmp_path: Path) -> None:
    fetched: list[str] = []

    async def counted(url: str, policy: OutboundPolicy) -> Fetched:
        fetched.append(url)
        return await village(url, policy)

    engine = replace(made_engine(tmp_path), fetch=counted)
    async with opened(tmp_path, engine) as pair:
        pair.service.script(engine.llm, server_errors=2)
        one = await pair.submit("speaking", SPEAKING)
        await pair.settle()
        assert list(engine.settings.audio_folder.iterdir()) == [], "the words are stored, the audio is not needed"
        await pair.settle_for(20)
        state = (await pair.show(one.id)).state
        assert state.status == "REVIEW_REQUIRED" and state.ai_result is not None
        assert state.ai_result["transcript"].startswith("I grew up")
        calls = await pair.query(pair.service, "SELECT provider FROM holdfast_calls")
        assert sorted(call["provider"] for call in calls) == ["llm", "llm", "llm", "stt"] and len(fetched) == 1
        steps = [data["status"] for name, data in await pair.events(one.id) if name == "grading.progress"]
        assert (steps == ["PROCESSING"] * 4 and one.skill == "speaking") or steps


@pytest.mark.spec("G6", "000.12")
async def test_a_request_has_three_retries_in_all_its_stages_together(tmp_path: Path) -> None:
    engine = replace(made_engine(tmp_path), fetch=village)
    async with opened(tmp_path, engine) as pair:
        pair.service.script(engine.stt, server_errors=2)
        pair.service.script(engine.llm, server_errors=9)
        one = await pair.submit("speaking", SPEAKING)
        await pair.settle_for(60)
        calls = await pair.query(pair.service, "SELECT provider FROM holdfast_calls")
        assert sorted(call["provider"] for call in calls) == ["llm"] * 2 + ["stt"] * 3, (
            "five calls, two stages, 3 retries"
        )
        assert (await pair.show(one.id)).state.status == "FAILED"
        assert pair.dead_letters[0]["attemptsMade"] == 2


@pytest.mark.spec("G6", "G15", "000.33")
@pytest.mark.parametrize(
    ("content", "promised_s", "code"),
    [(b"no audio at all", 16, "AUDIO_UNDECODABLE"), (b"village", 60, "AUDIO_TRUNCATED")],
)
async def test_bad_audio_fails_the_submission_without_a_retry(
    tmp_path: Path, content: bytes, promised_s: int, code: str
) -> None:
    async def fetch(url: str, policy: OutboundPolicy) -> Fetched:
        return await village(url, policy) if content == b"village" else Fetched(content, None, url)

    async with opened(tmp_path, replace(made_engine(tmp_path), fetch=fetch)) as pair:
        one = await pair.submit("speaking", SPEAKING | {"durationSeconds": promised_s})
        await pair.settle()
        state = (await pair.show(one.id)).state
        assert (state.status, state.failure_reason) == ("FAILED", code)
        assert pair.dead_letters[0]["attemptsMade"] == 1
        assert "audio.example" not in str(pair.dead_letters[0]), "a signed address stays where it is"


@pytest.mark.spec("G16")
@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.7", "169.254.169.254", "[::1]"])
async def test_audio_from_a_private_address_is_never_fetched(tmp_path: Path, host: str) -> None:
    made = engine_for(ServiceSettings(data_dir=str(tmp_path)))
    async with opened(tmp_path, replace(made_engine(tmp_path), fetch=made.fetch)) as pair:
        one = await pair.submit("speaking", SPEAKING | {"audioUrl": f"http://{host}:9/a.ogg"})
        await pair.settle()
        state = (await pair.show(one.id)).state
        assert (state.status, state.failure_reason) == ("FAILED", "AUDIO_UNAVAILABLE")


@pytest.mark.spec("G16")
async def test_a_file_that_is_gone_is_fetched_again(tmp_path: Path) -> None:
    engine = replace(made_engine(tmp_path), fetch=village)
    async with opened(tmp_path, engine) as pair:
        pair.service.script(engine.stt, server_errors=1)
        one = await pair.submit("speaking", SPEAKING)
        await pair.settle()
        for path in engine.settings.audio_folder.iterdir():
            path.unlink()
        await pair.settle_for(10)
        assert (await pair.show(one.id)).state.status == "REVIEW_REQUIRED"


async def until(kernel: Kernel, holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for news of a submission until something holds."""
    listener = kernel.store.listen(submissions.CHANNEL)
    async with asyncio.timeout(60):
        while not await holds():
            await listener.wait(0.5)
    listener.close()


@pytest.mark.slow
@pytest.mark.spec("G1", "G10", "G11", "G13", "G15")
async def test_both_services_in_one_process_really_grade(tmp_path: Path) -> None:
    """As `make up` runs them: SQLite, the in-process transport, offline grading, real time."""
    transport, stop = MemoryTransport(), asyncio.Event()
    settings = Settings(data_dir=str(tmp_path))
    made = engine_for(ServiceSettings(data_dir=str(tmp_path)))
    system = grading_main()
    main = Kernel(SqliteStore(tmp_path / "main.db"), Registry([system.build({})]), transport)
    service_registry = Registry([service_app(replace(made, fetch=village))])
    service = Kernel(SqliteStore(tmp_path / "service.db"), service_registry, transport)
    web = create_app(settings, [OpenSystem(system, main, {})])
    headers = {"Authorization": f"Bearer {token_for(settings, 'ann', ['learner', 'instructor'])}"}
    for kernel in (main, service):
        await prepare(kernel)
    async with (
        asyncio.TaskGroup() as group,
        httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://h", headers=headers) as client,
    ):
        for kernel in (main, service):
            group.create_task(run(kernel, Duties(grace_s=1), stop))
        ids = []
        for skill, payload in (
            ("writing", {"text": EMAIL, "taskType": "email", "questionId": "q"}),
            ("speaking", SPEAKING),
        ):
            key = {"Idempotency-Key": str(uuid.uuid4())}
            answer = await client.post("/api/submissions", json={"skill": skill, "payload": payload}, headers=key)
            ids.append(answer.json()["id"])

        async def reviewed() -> bool:
            items = (await client.get("/api/instructor/queue")).json()["items"]
            return {item["id"] for item in items} == set(ids)

        await until(main, reviewed)
        await _review_all(client, ids)
        stop.set()
    for kernel in (main, service):
        await kernel.store.close()


async def _review_all(client: httpx.AsyncClient, ids: list[str]) -> None:
    queue: dict[str, Any] = {item["id"]: item for item in (await client.get("/api/instructor/queue")).json()["items"]}
    assert "grandparents" in queue[ids[1]]["aiResult"]["transcript"].lower()
    for submission_id in ids:
        ai = queue[submission_id]["aiResult"]
        assert 2 < ai["overallScore"] < 9 and ai["method"] == "offline" and ai["confidenceScore"] < 85
        await client.post(f"/api/submissions/{submission_id}/review/claim")
        body = {"overallScore": ai["overallScore"]}
        assert (await client.post(f"/api/submissions/{submission_id}/review", json=body)).status_code == 200
        shown = (await client.get(f"/api/submissions/{submission_id}")).json()
        assert (shown["status"], shown["result"]["overallScore"]) == ("COMPLETED", ai["overallScore"])
        events = (await client.get(f"/api/submissions/{submission_id}/events")).text
        assert events.count("event: grading.completed") == 1


@pytest.mark.spec("G15")
async def test_a_second_run_that_disagrees_costs_confidence(tmp_path: Path) -> None:
    """The same text, one model sure of itself and one grader that measures something else."""
    engine = replace(made_engine(tmp_path), client=endpoint(score=2.0))
    async with opened(tmp_path, engine) as pair:
        one = await pair.submit("writing", WRITING)
        await pair.settle()
        state = (await pair.show(one.id)).state
        assert state.ai_result is not None and state.ai_result["confidenceScore"] < 100
