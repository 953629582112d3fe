"""The examples of the documentation are run as written."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.testing import world

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.spec("K12")
async def test_a_crash_after_the_send_mails_once() -> None:
    digest = load("digest")
    async with world(digest.app) as w:
        w.script(digest.mail, accept_then_crash=1)
        job = await w.enqueue(digest.SendDigest, digest.Order(1, "ada@example.test"))
        await w.run_until_idle()
        assert await w.state(job) == "succeeded"
        assert (await w.effects(job)).sent == 1
        assert len(digest.OUTBOX) == 1


@pytest.mark.spec("K4", "K6")
async def test_a_rate_limited_stage_waits_as_long_as_it_is_told_and_repeats_nothing_else() -> None:
    digest = load("digest")
    async with world(digest.app) as w:
        w.script(digest.llm, rate_limited=1, retry_after_s=45)
        began = w.clock.now_ms()
        job = await w.enqueue(digest.SendDigest, digest.Order(2, "ada@example.test"))
        await w.run_until_idle()
        assert await w.state(job) == "succeeded"
        assert w.clock.now_ms() - began >= 45_000
        story = await w.events(job)
        assert story.count("retried") == 1
        assert story.count("advanced") == 2
