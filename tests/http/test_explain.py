"""Why a job is not running, in words, for every state it can be in."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from holdfast import App, Breaker, Context, Discard, Job, NotFound, Provider, Retry, Snooze, Wait, stage
from holdfast.engines.worker import Worker
from holdfast.kernel import operate
from holdfast.kernel.hold import force
from holdfast.kernel.questions.explain import Explanation, explain
from holdfast.kernel.turn import turn
from holdfast.tables import workers
from holdfast.testing import World, world

pytestmark = pytest.mark.spec("K17")

llm = Provider("llm", breaker=Breaker(window=2, min_calls=1))
app = App("tales")


class Ask(BaseModel):
    how: str = "well"


@app.job()
class Tale(Job[Ask]):
    @stage(provider=llm, retry=Retry(attempts=3, base_s=60, jitter="none"))
    async def tell(self, ctx: Context, ask: Ask) -> object:
        if ask.how == "waits":
            return Wait("answer-1", within_s=600)
        if ask.how == "snoozes":
            return Snooze(300, "the moon is wrong")
        if ask.how == "stumbles":
            raise ConnectionResetError("over its own feet")
        if ask.how == "dies":
            return Discard("it cannot be told", "UNTELLABLE")
        return await ctx.call(_told)


async def _told() -> str:
    return "told"


async def why(w: World, job_id: str) -> Explanation:
    return await explain(w.kernel, job_id)


async def test_a_due_job_without_a_worker_says_so_and_with_one_waits_its_turn() -> None:
    async with world(app) as w:
        job = await w.enqueue(Tale, Ask())
        w.clock.advance(30)
        found = await why(w, job)
        assert found.facts["code"] == "NO_WORKER"
        assert "been due for 30 s" in found.sentence and "holdfast worker" in found.sentence
        async with w.kernel.store.transaction() as tx:
            await workers.seen(tx, "w1", "tales,other", 7, w.kernel.now())
        found = await why(w, job)
        assert found.facts["code"] == "DUE" and "1 worker of the queue 'tales' had 7 jobs in flight" in found.sentence
        w.clock.advance(600)
        assert (await why(w, job)).facts["code"] == "NO_WORKER"


async def test_a_delayed_job_says_when() -> None:
    async with world(app) as w:
        found = await why(w, await w.enqueue(Tale, Ask(), delay_s=90))
        assert found.facts["code"] == "SCHEDULED" and "in 90 s" in found.sentence


async def test_a_retry_names_its_cause_and_its_time() -> None:
    async with world(app) as w:
        w.script(llm, timeouts=1)
        jobs = [await w.enqueue(Tale, Ask(how=how)) for how in ("stumbles", "well")]
        await Worker(w.kernel).run_until_idle()
        counted, free = [await why(w, job) for job in jobs]
        assert counted.facts["code"] == "RETRY" and counted.facts["error_class"] == "NETWORK_BROKEN"
        assert "retry 1 of the stage 'tell'" in counted.sentence and "in 60 s" in counted.sentence
        assert free.facts["code"] == "RETRY" and free.facts["error_class"] == "NETWORK_TIMEOUT"
        assert "known to be down: this cost no attempt" in free.sentence and "in 60 s" in free.sentence


async def test_a_provider_that_asked_to_wait_is_named_as_the_cause() -> None:
    async with world(app) as w:
        w.script(llm, rate_limited=1, retry_after_s=200)
        job = await w.enqueue(Tale, Ask())
        await Worker(w.kernel).run_until_idle()
        found = await why(w, job)
        assert found.facts["code"] == "RETRY_AFTER"
        assert "The provider asked to wait" in found.sentence and "in 200 s" not in found.sentence
        assert "in 3 min" in found.sentence


async def test_a_held_job_names_the_breaker_and_its_end() -> None:
    async with world(app) as w:
        await force(w.kernel, "llm", open=True, actor="ann", reason="maintenance")
        job = await w.enqueue(Tale, Ask())
        await Worker(w.kernel).run_until_idle()
        found = await why(w, job)
        assert found.facts["code"] == "HELD" and found.facts["provider"] == "llm"
        assert "a person has opened the breaker of 'llm' (maintenance)" in found.sentence
        assert "spends no attempt" in found.sentence
        await force(w.kernel, "llm", open=False, actor="ann", reason="over")
        assert (await why(w, job)).facts["code"] == "DRAINING"


async def test_a_breaker_that_opened_by_itself_says_until_when() -> None:
    async with world(app) as w:
        w.script(llm, server_errors=2)
        first, second = await w.enqueue(Tale, Ask()), await w.enqueue(Tale, Ask())
        await Worker(w.kernel, concurrency=1).run_until_idle()
        found = [await why(w, job) for job in (first, second)]
        held = next(one for one in found if one.facts["code"] == "HELD")
        assert "the breaker of 'llm' is open" in held.sentence and "in 30 s" in held.sentence


async def test_a_running_job_names_its_worker_and_a_lost_lease_says_so() -> None:
    async with world(app) as w:
        job = await w.enqueue(Tale, Ask())
        await turn(w.kernel, "w7", ["tales"], [], 1)
        found = await why(w, job)
        assert found.facts["code"] == "RUNNING" and "worker 'w7' works on the stage 'tell'" in found.sentence
        w.clock.advance(w.kernel.tuning.lease_s + 5)
        assert (await why(w, job)).facts["code"] == "LEASE_EXPIRED"


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("waits", "WAITING", "a callback with the key 'answer-1'"),
        ("snoozes", "SNOOZED", "the moon is wrong"),
        ("dies", "DEAD", "UNTELLABLE"),
        ("well", "FINISHED", "It succeeded"),
    ],
)
async def test_the_other_states_explain_themselves(how: str, code: str, words: str) -> None:
    async with world(app) as w:
        job = await w.enqueue(Tale, Ask(how=how))
        await Worker(w.kernel).run_until_idle()
        found = await why(w, job)
        assert found.facts["code"] == code and words in found.sentence


async def test_a_dead_job_names_its_case_and_the_next_step() -> None:
    async with world(app) as w:
        job = await w.enqueue(Tale, Ask(how="dies"))
        await Worker(w.kernel).run_until_idle()
        found = await why(w, job)
        assert found.facts["case_id"] in found.sentence and "next: triage it" in found.sentence


async def test_a_cancelled_job_says_by_whom_and_an_unknown_one_is_not_found() -> None:
    async with world(app) as w:
        job = await w.enqueue(Tale, Ask())
        await operate.cancel(w.kernel, job, "ann")
        assert "cancelled by ann" in (await why(w, job)).sentence
        with pytest.raises(NotFound):
            await why(w, w.kernel.new_id())
