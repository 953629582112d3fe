"""Dead letters: everything a person needs, nothing they must not see, and the workflow that brings a job back."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import App, CallError, Category, Context, InvalidInput, Job, NotAllowed, NotFound, Provider, Retry, stage
from holdfast.core.case import STEPS, CaseState
from holdfast.kernel import operate
from holdfast.kernel.observe.watch import JsonFormatter
from holdfast.tables import audit, cases
from holdfast.testing import World
from tests.kernel.places import Deploy, rows

app = App("letters")
api = Provider("api")
PLANTED = [
    "sk-live-51HxAbCdEfGhIjKlMnOpQrStUv",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJlc2lnbmF0dXJl",
    "postgresql://admin:tr0ub4dor-and-3@db.internal/main",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
]
planned: list[BaseException] = []


@dataclass
class Ask:
    prompt: str
    api_key: str = ""


@app.job()
class Answer(Job[Ask]):
    @stage()
    async def read(self, ctx: Context, ask: Ask) -> str:
        return "read"

    @stage(provider=api, retry=Retry(attempts=2, base_s=1, jitter="none"))
    async def ask(self, ctx: Context, ask: Ask, read: str) -> str:
        secret_in_a_local = ask.api_key

        async def call() -> str:
            if planned:
                raise planned.pop(0)
            return "answered" if secret_in_a_local is not None else ""

        return await ctx.call(call)


@pytest.fixture(autouse=True)
def fresh() -> None:
    planned.clear()


def refused(error_class: str = "UPSTREAM_UNPROCESSABLE", message: str = "no") -> CallError:
    return CallError.of(Category.VALIDATION, error_class, message, status=422)


async def dead(world: World, *errors: BaseException, **options: Any) -> tuple[str, str]:
    """A job that died of these errors, and its case."""
    planned.extend(errors)
    job_id = await world.enqueue(Answer, Ask("why?"), **options)
    await world.run_until_idle()
    (letter,) = await world.dead_letters()
    return job_id, letter["id"]


async def case_of(world: World, case_id: str) -> dict[str, Any]:
    async with world.kernel.store.reading() as tx:
        found = await cases.show(tx, case_id)
    assert found is not None
    return found._asdict()


async def audited(world: World, case_id: str) -> list[tuple[str, str]]:
    async with world.kernel.store.reading() as tx:
        return [(row.actor, row.action) for row in await audit.of_subject(tx, f"case:{case_id}")]


@pytest.mark.spec("K7", "004.9")
async def test_a_dead_letter_holds_all_that_is_needed(deploy: Deploy) -> None:
    world = await deploy(app)
    began = world.clock.now_ms()
    again = CallError.of(Category.UPSTREAM, "UPSTREAM_INTERNAL", "the model fell over", status=500)
    job_id, case_id = await dead(world, again, again, trace="trace-1", owner="ann@example.org")
    case = await case_of(world, case_id)
    assert {name for name, value in case.items() if value is None} == {"cause", "evidence", "notes", "replay_stage"}
    assert (case["job_id"], case["request_id"], case["kind"], case["stage"]) == (
        job_id,
        "trace-1",
        "letters.answer",
        "ask",
    )
    assert (case["error_class"], case["category"], case["retryable"]) == ("UPSTREAM_INTERNAL", "upstream_internal", 1)
    assert (case["failure_reason"], case["attempts_made"], case["provider"]) == ("exhausted", 2, "api")
    assert case["last_error"] == "the model fell over"
    assert "CallError" in case["last_stack"]
    assert case["first_failure_at"] == began and case["last_failure_at"] == world.clock.now_ms() > began
    assert case["created_at"] == case["updated_at"] == world.clock.now_ms()
    assert case["original"] == f"holdfast_jobs/{job_id}" and case["state"] == "open"
    context = json.loads(case["sanitized_context"])
    assert context["provider_status"] == 500 and context["failures"] == 2 and len(context["payload_sha256"]) == 16
    assert "ann@" not in json.dumps(case), "a person's address does not belong into a dead letter"


@pytest.mark.spec("K7", "K17", "004.10")
@pytest.mark.parametrize("secret", PLANTED)
async def test_a_planted_secret_appears_nowhere_but_in_the_payload(
    deploy: Deploy, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = await deploy(app)
    body = f'provider said: {{"error": "bad key", "api_key": "{secret}"}}'
    planned.extend([CallError.of(Category.NETWORK, "NETWORK_BROKEN", f"first {secret}"), ValueError(body)])
    with caplog.at_level(logging.DEBUG):
        await world.enqueue(Answer, Ask(f"use {secret}", secret))
        await world.run_until_idle()
    (letter,) = await world.dead_letters()
    case_id = letter["id"]
    await operate.triage(world.kernel, case_id, cause="auth_config", actor="ann", notes=f"the key was {secret}")
    await operate.remediate(world.kernel, case_id, evidence=f"rotated {secret}", actor="ann")
    store = world.kernel.store
    written = [
        *await rows(store, "SELECT * FROM holdfast_dead_letters"),
        *await rows(store, "SELECT * FROM holdfast_job_events"),
        *await rows(store, "SELECT * FROM holdfast_audit"),
        *await rows(store, "SELECT * FROM holdfast_calls"),
        *await rows(store, "SELECT error, hold FROM holdfast_jobs"),
    ]
    lines = [JsonFormatter().format(record) for record in caplog.records]
    plain = [logging.Formatter("%(message)s").format(record) for record in caplog.records]
    assert secret not in str(written) and secret not in str(lines) and secret not in str(plain)
    core = secret.split("@")[0].rpartition(":")[2]
    assert core not in str(written) and core not in str(lines)
    assert len(written) >= 8 and len(lines) >= 3


@pytest.mark.spec("K7")
async def test_a_dead_letter_never_loops_by_itself(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id, _ = await dead(world, refused())
    history = await world.events(job_id)
    for _ in range(20):
        world.clock.advance(3_600)
        await world.tick()
    assert await world.state(job_id) == "dead" and await world.events(job_id) == history


@pytest.mark.spec("K8", "004.12")
async def test_the_whole_workflow_is_audited_step_by_step(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id, case_id = await dead(world, refused())
    await operate.triage(world.kernel, case_id, cause="data", actor="ann", notes="looks odd")
    await operate.remediate(world.kernel, case_id, evidence="ticket 7", actor="bob")
    done = await operate.replay(world.kernel, case_id, actor="cy")
    assert (done.job_id, done.stage) == (job_id, "ask")
    await world.run_until_idle()
    await operate.resolve(world.kernel, case_id, notes="answered", actor="dee")
    case = await case_of(world, case_id)
    assert (case["state"], case["cause"], case["evidence"], case["replays"]) == ("resolved", "data", "ticket 7", 1)
    assert await world.state(job_id) == "succeeded"
    assert await audited(world, case_id) == [
        ("kernel", "case.opened"),
        ("ann", "case.triaged"),
        ("bob", "case.remediated"),
        ("cy", "case.replayed"),
        ("dee", "case.resolved"),
    ]
    assert await world.events(job_id) == [
        *("created", "claimed", "advanced", "claimed", "buried"),
        *("replayed", "claimed", "succeeded"),
    ]


VERBS: dict[str, Any] = {
    "triage": lambda kernel, case: operate.triage(kernel, case, cause="code", actor="ann"),
    "remediate": lambda kernel, case: operate.remediate(kernel, case, evidence="mended", actor="ann"),
    "replay": lambda kernel, case: operate.replay(kernel, case, actor="ann"),
    "resolve": lambda kernel, case: operate.resolve(kernel, case, without_replay="no need", actor="ann"),
}


@pytest.mark.spec("K8", "K15", "004.12")
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("state", list(CaseState))
async def test_each_step_is_taken_only_from_the_states_it_names(deploy: Deploy, state: CaseState, verb: str) -> None:
    world = await deploy(app)
    _, case_id = await dead(world, refused())
    async with world.kernel.store.transaction() as tx:
        evidence = "mended" if state is CaseState.REMEDIATED else None
        await cases.step(tx, case_id, CaseState.OPEN, state, world.kernel.now(), evidence=evidence)
    before = await audited(world, case_id)
    allowed, after = STEPS[verb]
    if state in allowed:
        await VERBS[verb](world.kernel, case_id)
        assert (await case_of(world, case_id))["state"] == after
        assert len(await audited(world, case_id)) == len(before) + 1
    else:
        with pytest.raises(NotAllowed, match=state):
            await VERBS[verb](world.kernel, case_id)
        assert (await case_of(world, case_id))["state"] == state and await audited(world, case_id) == before


@pytest.mark.spec("K8", "004.16")
async def test_a_case_is_resolved_only_after_its_replay_has_succeeded(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id, case_id = await dead(world, refused())

    async def refusal(**said: Any) -> str:
        before = await audited(world, case_id)
        with pytest.raises(NotAllowed) as error:
            await operate.resolve(world.kernel, case_id, actor="ann", **said)
        assert await audited(world, case_id) == before and (await case_of(world, case_id))["state"] != "resolved"
        return str(error.value)

    assert "it is open" in await refusal(notes="done")
    await operate.triage(world.kernel, case_id, cause="data", actor="ann")
    assert "it is triaged" in await refusal(notes="done")
    await operate.remediate(world.kernel, case_id, evidence="mended", actor="ann")
    assert "it is remediated" in await refusal(notes="done")
    await operate.replay(world.kernel, case_id, actor="ann", delay_s=60)
    assert "Its job is queued" in await refusal(notes="done")
    assert "Its job is queued" in await refusal(without_replay="surely"), "a reason is no proof while it runs"
    planned.append(refused())
    await world.run_until_idle()
    assert "it is escalated" in await refusal(notes="done")
    await world.mend_and_replay(case_id)
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"
    await operate.resolve(world.kernel, case_id, notes="it arrived", actor="ann")
    assert (await case_of(world, case_id))["notes"] == "it arrived"


@pytest.mark.spec("K8", "004.16")
@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_case_is_closed_without_a_replay_only_with_a_reason(deploy: Deploy, cancelled: bool) -> None:
    world = await deploy(app)
    job_id, case_id = await dead(world, refused())
    if cancelled:
        await world.mend_and_replay(case_id)
        await operate.cancel(world.kernel, job_id, "ann")
        with pytest.raises(NotAllowed, match="its replayed job is cancelled"):
            await operate.resolve(world.kernel, case_id, notes="done", actor="ann")
    await operate.resolve(world.kernel, case_id, without_replay="the customer has left", actor="dee")
    assert (await case_of(world, case_id))["notes"] == "Without a replay: the customer has left"
    async with world.kernel.store.reading() as tx:
        last = (await audit.of_subject(tx, f"case:{case_id}"))[-1]
    assert (last.actor, last.action) == ("dee", "case.resolved")
    assert json.loads(last.data or "")["without_replay"] == "the customer has left"


@pytest.mark.spec("K8")
async def test_what_is_said_must_say_something(deploy: Deploy) -> None:
    world = await deploy(app)
    _, case_id = await dead(world, refused())
    kernel = world.kernel
    with pytest.raises(InvalidInput, match="cause 'weather'"):
        await operate.triage(kernel, case_id, cause="weather", actor="ann")
    with pytest.raises(InvalidInput, match="Evidence"):
        await operate.remediate(kernel, case_id, evidence="  ", actor="ann")
    with pytest.raises(InvalidInput, match="notes"):
        await operate.resolve(kernel, case_id, notes="", actor="ann")
    with pytest.raises(InvalidInput, match="reason"):
        await operate.resolve(kernel, case_id, notes="surely", without_replay=" ", actor="ann")
    with pytest.raises(NotFound):
        await operate.triage(kernel, kernel.new_id(), cause="data", actor="ann")
    with pytest.raises(NotFound):
        await operate.cancel(kernel, kernel.new_id(), "ann")


@pytest.mark.spec("K8", "004.17")
@pytest.mark.parametrize("resolved_meanwhile", [False, True])
async def test_the_same_permanent_failure_again_is_escalated(deploy: Deploy, resolved_meanwhile: bool) -> None:
    world = await deploy(app)
    _, case_id = await dead(world, refused())
    await world.mend_and_replay(case_id)
    if resolved_meanwhile:  # as cases were that nobody had to verify before
        async with world.kernel.store.transaction() as tx:
            await cases.step(tx, case_id, CaseState.REPLAYED, CaseState.RESOLVED, world.kernel.now())
    planned.append(refused())
    await world.run_until_idle()
    case = await case_of(world, case_id)
    assert (case["state"], case["deaths"]) == ("escalated", 2)
    assert (await audited(world, case_id))[-1] == ("kernel", "case.escalated")
    with pytest.raises(NotAllowed):
        await operate.replay(world.kernel, case_id, actor="ann")


@pytest.mark.spec("K8")
async def test_another_failure_after_a_replay_opens_the_case_again(deploy: Deploy) -> None:
    world = await deploy(app)
    _, case_id = await dead(world, refused())
    await world.mend_and_replay(case_id)
    planned.append(refused("UPSTREAM_BAD_REQUEST"))
    await world.run_until_idle()
    assert (await case_of(world, case_id))["state"] == "open"


@pytest.mark.spec("K6", "K8", "004.15")
async def test_a_full_replay_runs_every_stage_anew(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id, case_id = await dead(world, refused())
    await world.mend_and_replay(case_id, full=True)
    assert (await world.job(job_id))["stage"] == "read" and await world.results(job_id) == {}
    await world.run_until_idle()
    assert (await world.events(job_id)).count("advanced") == 2


@pytest.mark.spec("K4", "K8")
async def test_a_replay_respects_the_wait_that_the_provider_asked_for(deploy: Deploy) -> None:
    world = await deploy(app)
    asked = CallError.of(Category.AUTH, "QUOTA_EXHAUSTED", "later", retry_after_ms=120_000, status=429)
    job_id, case_id = await dead(world, asked)
    not_before = world.clock.now_ms() + 120_000
    await world.mend_and_replay(case_id)
    assert (await world.job(job_id))["run_at"] == not_before
    await world.work()
    assert await world.state(job_id) == "queued"
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded" and world.clock.now_ms() >= not_before


@pytest.mark.spec("K8")
async def test_a_crash_in_a_replay_leaves_the_case_as_it_was(deploy: Deploy) -> None:
    world = await deploy(app)
    job_id, case_id = await dead(world, refused())
    await operate.triage(world.kernel, case_id, cause="data", actor="ann")
    await operate.remediate(world.kernel, case_id, evidence="mended", actor="ann")
    world.crash_at("replay.before_commit")
    await world._as_a_process(operate.replay(world.kernel, case_id, actor="ann"))
    assert world.crashes == 1 and await world.state(job_id) == "dead"
    assert (await case_of(world, case_id))["state"] == "remediated"
    await operate.replay(world.kernel, case_id, actor="ann")
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"
