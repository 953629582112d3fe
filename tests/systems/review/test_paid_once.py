"""The model is paid once for each part of a change, and only what redaction has passed leaves."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.providers.openai import OpenAIClient
from holdfast.testing import HandClock, World
from holdfast_systems.review import changes
from holdfast_systems.review.changelist import FetchedDiff
from holdfast_systems.review.findings import Finding, Review
from holdfast_systems.review.jobs import review_app
from tests.kernel.places import rows
from tests.systems.review.conftest import OpenStore
from tests.systems.review.post_office import Desk, PostOffice, ask, engine, request, see

SECRET = "ghp_" + "a8Bc9De0Fg1Hi2Jk3Lm4No5Pq6Rs7Tu8Vw9X"


def big_diff(files: int) -> str:
    return "".join(
        f"diff --git a/f{n}.py b/f{n}.py\n--- a/f{n}.py\n+++ b/f{n}.py\n@@ -0,0 +1,60 @@\n"
        + "".join(f"+value_{n}_{line} = compute_something({line})\n" for line in range(60))
        for n in range(files)
    )


class Endpoint:
    """Answers every prompt, and counts them by their text. The `fail_at`-th call is answered with 503."""

    def __init__(self) -> None:
        self.prompts: Counter[str] = Counter()
        self.fail_at: set[int] = set()

    def __call__(self, asked: httpx.Request) -> httpx.Response:
        text = json.loads(asked.content)["messages"][1]["content"]
        if sum(self.prompts.values()) + 1 in self.fail_at:
            self.fail_at.remove(sum(self.prompts.values()) + 1)
            return httpx.Response(503)
        self.prompts[text] += 1
        said = {"summary": "Read.", "findings": []}
        choice = {"message": {"content": json.dumps(said)}, "finish_reason": "stop"}
        return httpx.Response(200, json={"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 10}})


class Setting:
    """A deployment with a model behind an endpoint."""

    def __init__(self, open_store: OpenStore, folder: Path, **more: Any) -> None:
        self.endpoint, self.desk, self.post = Endpoint(), Desk(diff=big_diff(6)), PostOffice()
        http = httpx.AsyncClient(transport=httpx.MockTransport(self.endpoint))
        client = OpenAIClient("http://llm.test/v1", "key", http=http)
        prices = {"llm_prompt_price": 1_000, "llm_answer_price": 2_000, "tokens_max": 1_000}
        made = engine(self.post, self.desk, str(folder), openai_base_url="http://llm.test/v1", **prices)
        self.engine = replace(made, client=client, **more)
        self.open_store = open_store
        self.world = World([review_app(self.engine)], open_store, HandClock(), seed=1)

    async def run(self, **asked: Any) -> None:
        await self.world.kernel.migrate()
        await ask(self.world, request(**asked))
        await self.world.run_until_idle()


@pytest.fixture
def setting(open_store: OpenStore, tmp_path: Path) -> Setting:
    return Setting(open_store, tmp_path)


@pytest.mark.spec("R8", "K18")
async def test_each_chunk_is_one_recorded_call_with_its_cost(setting: Setting) -> None:
    await setting.run()
    assert len(setting.endpoint.prompts) == 6 and set(setting.endpoint.prompts.values()) == {1}
    calls = await rows(setting.world.kernel.store, "SELECT * FROM holdfast_calls WHERE provider = 'llm'")
    assert [one["cost_micros"] for one in calls] == [120] * 6
    assert json.loads(calls[0]["units"]) == {"prompt_tokens": 100, "completion_tokens": 10}
    stored, _ = await see(setting.world)
    assert stored.result is not None and stored.result["tokens_in"] == 600


@pytest.mark.spec("K6", "R3")
@pytest.mark.parametrize("visit", [2, 5, 8])
async def test_a_crash_between_chunks_pays_for_none_of_them_twice(setting: Setting, visit: int) -> None:
    setting.world.crash_at("call.before", visit=visit)
    await setting.run()
    assert setting.world.crashes == 1 and (await see(setting.world))[0].status == "succeeded"
    assert len(setting.endpoint.prompts) == 6 and set(setting.endpoint.prompts.values()) == {1}


@pytest.mark.spec("K6", "K4")
async def test_a_retry_goes_on_at_the_chunk_that_failed(setting: Setting) -> None:
    setting.endpoint.fail_at = {3, 6}
    await setting.run()
    assert (await see(setting.world))[0].status == "succeeded"
    assert set(setting.endpoint.prompts.values()) == {1}


@pytest.mark.spec("K8", "R10")
async def test_even_a_full_replay_pays_only_for_what_changed(setting: Setting) -> None:
    setting.post.refused = {"bob@example.test"}
    await setting.run()
    stored, _ = await see(setting.world)
    setting.post.refused.clear()
    await setting.world.mend_and_replay(stored.dead_letter_id or "", full=True)
    await setting.world.run_until_idle()
    assert setting.desk.fetched == 2 and set(setting.endpoint.prompts.values()) == {1}
    assert (await see(setting.world))[0].status == "succeeded" and set(setting.post.mails.values()) == {1}


@pytest.mark.spec("K8", "K6")
async def test_a_full_replay_of_a_changed_source_asks_about_what_is_new(setting: Setting) -> None:
    setting.post.refused = {"bob@example.test"}
    await setting.run()
    setting.desk.diff = setting.desk.diff.replace("value_3_", "other_3_")
    await setting.world.mend_and_replay((await see(setting.world))[0].dead_letter_id or "", full=True)
    await setting.world.run_until_idle()
    assert len(setting.endpoint.prompts) == 7, "five parts are as they were, one is new"


@pytest.mark.spec("R8")
async def test_what_a_critic_quotes_is_redacted_before_it_is_stored(setting: Setting) -> None:
    async def quoting(*_: object, **__: object) -> Review:
        found = Finding("f0.py", 1, "error", "secret", f"The token {SECRET} stands here.", "offline")
        return Review(f"It shows {SECRET}.", (found,), "offline")

    made = replace(setting.engine, client=None, criticise=quoting)
    setting.world = World([review_app(made)], setting.open_store, HandClock(), seed=1)
    await setting.run(title=f"Use {SECRET}")
    kept = await rows(setting.world.kernel.store, "SELECT result, title FROM reviews")
    held = await rows(setting.world.kernel.store, "SELECT value FROM holdfast_results WHERE stage = 'llm'")
    assert "stands here" in kept[0]["result"] and SECRET not in f"{kept}{held}"


@pytest.mark.spec("R8")
async def test_a_secret_in_the_change_reaches_neither_model_nor_mail_nor_row(setting: Setting) -> None:
    setting.desk.diff = big_diff(1).replace("compute_something(7)", f'"{SECRET}"')
    await setting.run()
    sent = b"".join(mail for _, _, mail in setting.post.delivered).decode() + "".join(setting.endpoint.prompts)
    assert setting.endpoint.prompts and SECRET not in sent
    kept = await rows(setting.world.kernel.store, "SELECT result FROM reviews")
    assert SECRET not in kept[0]["result"]


@pytest.mark.spec("R8")
async def test_if_redaction_fails_nothing_is_sent(open_store: OpenStore, tmp_path: Path) -> None:
    def broken(text: str) -> str:
        raise RuntimeError("the pattern exploded")

    setting = Setting(open_store, tmp_path, redact=broken)
    await setting.run()
    stored, _ = await see(setting.world)
    assert (stored.status, stored.stage, stored.error_class) == ("failed", "llm", "REDACTION_FAILED")
    assert not setting.endpoint.prompts and not setting.post.delivered


@pytest.mark.spec("K6")
async def test_a_large_change_is_kept_on_disk_and_fetched_again_if_it_is_lost(setting: Setting, tmp_path: Path) -> None:
    noise = "".join(f"+{n:x}{n * 7919 % 1_000_003:x}{n * 104_729 % 999_983:x}\n" for n in range(12_000))
    header = "diff --git a/f.txt b/f.txt\n--- a/f.txt\n+++ b/f.txt\n"
    setting.desk.diff = f"{header}@@ -0,0 +1,12000 @@\n{noise}"
    world, folder = setting.world, setting.engine.settings.changes_folder
    await world.kernel.migrate()
    stored = await ask(world)
    setting.endpoint.fail_at = {1}
    world.crash_at("settle.after_commit")
    await world.tick()
    files = list(folder.iterdir())
    assert [one.suffixes for one in files] == [[".json", ".gz"]]
    assert len((await world.results(stored.job_id))["fetch"]) < 1_000, "the row has a reference only"
    files[0].write_bytes(b"cut short")
    fetched = setting.desk.fetched
    await world.run_until_idle()
    assert setting.desk.fetched == fetched + 1, "what is not what was written is not used"


@pytest.mark.spec("K6")
def test_another_change_under_the_same_reference_is_refused(tmp_path: Path) -> None:
    one, other = (changes.keep(FetchedDiff(text, "t", "a"), tmp_path) for text in ("x", "y"))
    assert changes.same_again(one, one) is one
    with pytest.raises(Exception, match="replay the review in full") as caught:
        changes.same_again(one, other)
    assert caught.value.failure.error_class == "CHANGE_LOST" and not caught.value.failure.retryable  # type: ignore[attr-defined]
    assert changes.kept(one, tmp_path) == FetchedDiff("x", "t", "a")
    assert changes.kept(replace(one, packed=other.packed), tmp_path) is None, "not what was fetched"
