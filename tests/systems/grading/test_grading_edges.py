"""Corners of the grading services: audio left behind, a breaker met half-way, an event id used twice."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.systems.grading.callbacks_made import completed, progress
from tests.systems.grading.pair import SPEAKING, WRITING, Pair, made_engine, opened, village

from holdfast.kernel.hold import force
from holdfast.kernel.relay import relay_once
from holdfast_systems.grading.grading_service import HELD_BATCH, tell_parked_once
from holdfast_systems.grading.stages import prune_audio


@pytest.mark.spec("G16")
async def test_audio_that_nobody_came_back_for_is_removed(tmp_path: Path) -> None:
    engine = made_engine(tmp_path)
    async with opened(tmp_path, engine) as pair:
        engine.settings.audio_folder.mkdir()
        now_s = pair.clock.now_ms() / 1_000
        for name, age_s in (("old.audio", 90_000), ("old.part", 90_000), ("young.audio", 10)):
            path = engine.settings.audio_folder / name
            path.write_bytes(b"x")
            os.utime(path, (now_s - age_s, now_s - age_s))
        assert await prune_audio(engine, pair.service.kernel) == 0
        assert [path.name for path in engine.settings.audio_folder.iterdir()] == ["young.audio"]


@pytest.mark.spec("G7")
async def test_a_handler_that_meets_the_open_breaker_tells_of_it_once(tmp_path: Path) -> None:
    """The breaker opens after the claim and before the call: nothing is parked yet, and the sender hears of it."""
    pairs: list[Pair] = []
    works: list[object] = []

    async def opening(work: Callable[[], Any]) -> Any:
        works.append(work)
        if len(works) == 3:  # the file is written, read, and now decoded: the transcription comes next
            await force(pairs[0].service.kernel, "stt", open=True, actor="test", reason="drill")
        return work()

    engine = replace(made_engine(tmp_path), fetch=village, run_blocking=opening)
    async with opened(tmp_path, engine) as pair:
        pairs.append(pair)
        one = await pair.submit("speaking", SPEAKING)
        await pair.settle()
        history = await pair.query(pair.service, "SELECT type FROM holdfast_job_events")
        assert "held" in [event["type"] for event in history]
        assert [each["kind"] for each in pair.callbacks].count("error") == 1, "told at once, not when it is parked"
        await pair.settle_for(40)
        told = [each for each in pair.callbacks if each["kind"] == "error"]
        assert [each["data"]["error"]["code"] for each in told] == ["CIRCUIT_OPEN"]
        assert (await pair.show(one.id)).state.status == "PROCESSING"
        assert (await pair.query(pair.service, "SELECT failures FROM holdfast_jobs"))[0]["failures"] == 0


@pytest.mark.spec("G7")
async def test_more_parked_jobs_than_one_batch_are_all_told_and_only_while_it_is_open(pair: Pair) -> None:
    await force(pair.service.kernel, "llm", open=True, actor="test", reason="drill")
    made = [await pair.submit() for _ in range(HELD_BATCH + 5)]
    await relay_all(pair)
    await pair.service.work()
    told = [await tell_parked_once(pair.service.kernel, pair.engine) for _ in range(3)]
    assert told == [HELD_BATCH, 5, 0] and len(made) == sum(told)
    await force(pair.service.kernel, "llm", open=False, actor="test", reason="over")
    assert await tell_parked_once(pair.service.kernel, pair.engine) == 0, "what drains is not told that it waits"


async def relay_all(pair: Pair) -> None:
    while await relay_once(pair.main.kernel):
        pass


@pytest.mark.spec("G9")
async def test_a_reused_event_id_is_noticed_and_has_no_effect(sure: Pair) -> None:
    one = await sure.submit("writing", WRITING)
    first = progress(one.request_id, one.id, "ANALYZING", 0.4)
    await sure.call_back(first)
    await sure.call_back(completed(one.request_id, one.id).model_copy(update={"event_id": first.event_id}))
    assert (await sure.show(one.id)).state.status == "PROCESSING"


@pytest.mark.spec("G9")
async def test_ids_are_the_same_in_upper_and_lower_case(sure: Pair) -> None:
    one = await sure.submit("writing", WRITING)
    news = progress(one.request_id, one.id, "ANALYZING", 0.4)
    shouted = {"request_id": one.request_id.upper(), "event_id": news.event_id.upper()}
    for callback in (news.model_copy(update=shouted), news):
        await sure.call_back(callback)
    assert (await sure.show(one.id)).state.step == "ANALYZING"
    seen = await sure.query(sure.main, "SELECT event_id, outcome FROM processed_callbacks")
    assert [(row["event_id"], row["outcome"]) for row in seen] == [(news.event_id, "applied")]
