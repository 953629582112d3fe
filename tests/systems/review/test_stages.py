"""A review's stages: budgets of their own, results that are kept, dead letters that are replayed, bad recipients."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import CallError, Category
from holdfast.kernel import operate
from holdfast.operator.snapshot import snapshot
from holdfast.tables import cases
from holdfast.testing import World
from holdfast_systems.review import deliveries
from holdfast_systems.review.reviews import Recipient
from tests.systems.review.conftest import Deploy
from tests.systems.review.post_office import ADA, BOB, CY, Desk, PostOffice, ask, request, see


def provider(world: World, name: str) -> Any:
    return world.kernel.registry.provider(name)


async def letter(world: World, case_id: str | None) -> dict[str, Any]:
    assert case_id is not None
    async with world.kernel.store.reading() as tx:
        row = await cases.show(tx, case_id)
    assert row is not None
    return row._asdict()


@pytest.mark.spec("R3", "004.6")
async def test_each_stage_has_five_attempts_of_its_own_with_full_jitter(deploy: Deploy, desk: Desk) -> None:
    post = PostOffice()
    world = await deploy(post)
    kind = world.kernel.registry.kind("review.review")
    assert [one.name for one in kind.stages] == ["fetch", "llm", "notify"]
    for one in kind.stages:
        plan = one.plan.retry
        assert (plan.attempts, plan.base_s, plan.multiplier, plan.cap_s) == (5, 1.0, 2.0, 60.0)
        assert (plan.jitter, plan.ceiling_s) == ("full", 300.0)
    world.script(provider(world, "source"), server_errors=4)
    world.script(provider(world, "critic"), server_errors=4)
    post.failing[ADA] = 4
    stored = await ask(world)
    await world.run_until_idle()
    assert (await see(world))[0].status == "succeeded", "four failures in each stage leave all budgets unspent"
    assert (desk.fetched, desk.criticised) == (1, 1) and await world.state(stored.job_id) == "succeeded"


@pytest.mark.spec("R3", "R10", "K7", "004.8")
@pytest.mark.parametrize(("name", "stage"), [("source", "fetch"), ("critic", "llm")])
async def test_the_fifth_failure_of_a_stage_is_a_dead_letter_that_names_it(
    deploy: Deploy, name: str, stage: str
) -> None:
    world = await deploy(PostOffice())
    world.script(provider(world, name), server_errors=5)
    await ask(world)
    await world.run_until_idle()
    stored, told = await see(world)
    assert (stored.status, stored.stage, stored.error_class) == ("failed", stage, "UPSTREAM_INTERNAL")
    case = await letter(world, stored.dead_letter_id)
    assert (case["stage"], case["attempts_made"], case["failure_reason"]) == (stage, 5, "exhausted")
    assert case["last_stack"] and case["first_failure_at"] <= case["last_failure_at"]
    assert json.loads(case["sanitized_context"])["stage"] == stage and case["original"]
    assert {row.status for row in told.values()} == {"pending"}


@pytest.mark.spec("R3", "K4")
async def test_a_host_that_asks_to_be_left_alone_holds_no_review_of_another(deploy: Deploy) -> None:
    """Changes come from many hosts: the Retry-After of one is the business of the review that met it."""
    world = await deploy(PostOffice())
    world.script(provider(world, "source"), rate_limited=1, retry_after_s=200)
    await ask(world)
    await world.work()
    other = await ask(world, request(changelist_id="cl-2", key="other"))
    await world.work()
    assert await world.state(other.job_id) == "succeeded"
    assert (await see(world))[0].status == "retryable_failed"
    world.clock.advance(199)
    await world.tick()
    assert (await see(world))[0].status == "retryable_failed", "it waits as long as it was told"
    world.clock.advance(1)
    await world.tick()
    assert (await see(world))[0].status == "succeeded"


@pytest.mark.spec("R3", "K4", "004.7")
async def test_a_send_that_the_provider_put_off_is_none_of_the_five(deploy: Deploy) -> None:
    post = PostOffice()
    world = await deploy(post)
    world.script(provider(world, "post"), rate_limited=7, retry_after_s=30)
    await ask(world, request(recipients=(Recipient(ADA),)))
    await world.run_until_idle()
    assert (await see(world))[0].status == "succeeded" and post.mails == {ADA: 1}


@pytest.mark.spec("R3", "K4", "004.8")
@pytest.mark.parametrize("name", ["source", "post"])
async def test_a_provider_that_puts_a_review_off_for_ever_ends_in_a_dead_letter(deploy: Deploy, name: str) -> None:
    world = await deploy(PostOffice(), hold_s_max=3_600)
    world.script(provider(world, name), rate_limited=10_000, retry_after_s=250)
    await ask(world)
    began = world.clock.now_ms()
    await world.run_until_idle()
    stored, _ = await see(world)
    case = await letter(world, stored.dead_letter_id)
    assert (stored.status, case["failure_reason"]) == ("failed", "exhausted")
    assert world.clock.now_ms() - began <= (3_600 + 1) * 1_000, "REVIEW_HOLD_MAX_SEC ends it"


@pytest.mark.spec("R7", "004.25")
async def test_a_failing_review_is_retryable_while_it_waits_and_in_progress_else(deploy: Deploy) -> None:
    world = await deploy(PostOffice())
    world.script(provider(world, "critic"), server_errors=1)
    stored = await ask(world)
    assert stored.status == "in_progress"
    await world.work()
    waiting, _ = await see(world)
    assert (waiting.status, waiting.stage, waiting.error_class) == ("retryable_failed", "llm", "UPSTREAM_INTERNAL")
    assert waiting.retry_at is not None and waiting.finished_at is None
    await world.run_until_idle()
    done, _ = await see(world)
    assert (done.status, done.error_class, done.retry_at) == ("succeeded", None, None) and done.finished_at


@pytest.mark.spec("R3", "K4", "004.4")
async def test_retry_after_is_honoured(deploy: Deploy) -> None:
    world = await deploy(PostOffice())
    world.script(provider(world, "critic"), rate_limited=1, retry_after_s=120)
    await ask(world)
    await world.work()
    waiting, _ = await see(world)
    assert waiting.retry_at == world.clock.now_ms() + 120_000


@pytest.mark.spec("K6", "R3")
@pytest.mark.parametrize("place", ["settle.before_commit", "settle.after_commit", "attempt.before_handler"])
async def test_a_completed_stage_is_never_run_again_across_crashes(deploy: Deploy, desk: Desk, place: str) -> None:
    world = await deploy(PostOffice())
    await ask(world)
    world.crash_at(place, visit=3)
    await world.run_until_idle()
    assert world.crashes == 1 and (await see(world))[0].status == "succeeded"
    assert (desk.fetched, desk.criticised) == (1, 1)


@pytest.mark.spec("R7", "R10", "004.26")
async def test_a_bad_recipient_fails_its_own_row_and_asks_for_a_person(deploy: Deploy, desk: Desk) -> None:
    post = PostOffice(refused={BOB})
    world = await deploy(post)
    await ask(world)
    await world.run_until_idle()
    stored, told = await see(world)
    assert post.mails == {ADA: 1, CY: 1} and [one.status for one in told.values()] == ["sent", "failed", "sent"]
    assert (stored.status, stored.stage, stored.error_class) == ("failed", "notify", "INVALID_RECIPIENT")
    assert told[BOB].error_class == "INVALID_RECIPIENT" and told[BOB].notified_at is None
    case = await letter(world, stored.dead_letter_id)
    assert (case["failure_reason"], case["retryable"]) == ("permanent", 0)
    assert "@" not in case["last_error"] + case["last_stack"] + case["sanitized_context"], "nobody's address"
    with pytest.raises(Exception, match=r"triage"):
        await operate.replay(world.kernel, case["id"], actor="olga")
    post.refused.clear()
    await world.mend_and_replay(case["id"])
    assert (await see(world))[0].status == "in_progress"
    await world.run_until_idle()
    assert post.mails == {ADA: 1, BOB: 1, CY: 1} and (await see(world))[0].status == "succeeded"
    assert (desk.fetched, desk.criticised) == (1, 1), "the replay began at the failed stage"


@pytest.mark.spec("K8", "R10", "004.17")
async def test_the_second_identical_refusal_escalates(deploy: Deploy) -> None:
    world = await deploy(PostOffice(refused={BOB}))
    await ask(world)
    await world.run_until_idle()
    first, _ = await see(world)
    assert (await letter(world, first.dead_letter_id))["state"] == "open"
    await world.mend_and_replay(first.dead_letter_id or "")
    await world.run_until_idle()
    again, _ = await see(world)
    assert (again.status, again.dead_letter_id) == ("failed", first.dead_letter_id)
    assert (await letter(world, again.dead_letter_id))["state"] == "escalated"


@pytest.mark.spec("R7")
async def test_who_is_not_required_holds_up_nobody(deploy: Deploy) -> None:
    post = PostOffice(refused={BOB}, failing=PostOffice().failing)
    post.failing[CY] = 50
    world = await deploy(post)
    optional = (Recipient(ADA), Recipient(BOB, required=False), Recipient(CY, required=False))
    await ask(world, request(recipients=optional))
    await world.run_until_idle()
    stored, told = await see(world)
    assert stored.status == "succeeded" and post.mails == {ADA: 1}
    assert (told[BOB].status, told[CY].status, told[CY].attempts) == ("failed", "retrying", 5)


@pytest.mark.spec("R7")
async def test_one_address_that_cannot_be_reached_now_is_tried_again_alone(deploy: Deploy) -> None:
    post = PostOffice()
    post.failing[ADA] = 3
    world = await deploy(post)
    await ask(world)
    await world.run_until_idle()
    _, told = await see(world)
    assert post.mails == {ADA: 1, BOB: 1, CY: 1}
    assert [row.attempts for row in told.values()] == [4, 1, 1]


@pytest.mark.spec("K5", "R7")
async def test_refused_credentials_stop_the_round_at_once(deploy: Deploy) -> None:
    """They are not one address's fault: the others are not even tried, and a replay tries all."""
    post = PostOffice()
    world = await deploy(post)
    refused = CallError.of(Category.AUTH, "SMTP_AUTH_FAILED", "check SMTP_URL", status=535)
    tries: list[str] = []

    async def denied(message: Any, token: str) -> str:
        tries.append(str(message["To"]))
        raise refused

    allowed, post.send = post.send, denied  # type: ignore[method-assign]
    await ask(world)
    await world.run_until_idle()
    stored, told = await see(world)
    assert tries == [ADA] and stored.error_class == "SMTP_AUTH_FAILED"
    assert [row.status for row in told.values()] == ["failed", "pending", "pending"]
    post.send = allowed  # type: ignore[method-assign]
    await world.mend_and_replay(stored.dead_letter_id or "")
    await world.run_until_idle()
    assert post.mails == {ADA: 1, BOB: 1, CY: 1}


@pytest.mark.spec("R8")
async def test_a_diff_without_files_is_an_error_of_the_fetch(deploy: Deploy, desk: Desk) -> None:
    desk.diff = "<html>not found</html>"
    world = await deploy(PostOffice())
    await ask(world)
    await world.run_until_idle()
    stored, _ = await see(world)
    assert (stored.status, stored.stage, stored.error_class) == ("failed", "fetch", "DIFF_UNREADABLE")
    view = await snapshot(world.kernel)
    assert (view.dead_letters_open, view.dead_letters_quiet) == (0, 1), "its caller's own mistake wakes nobody"


@pytest.mark.spec("K9")
async def test_the_breaker_of_the_mail_holds_reviews_without_spending_their_attempts(deploy: Deploy) -> None:
    post = PostOffice()
    world = await deploy(post, breaker_window=4)
    world.script(provider(world, "post"), server_errors=4)
    for number in range(4):
        await ask(world, request(changelist_id=f"cl-{number}", key=f"k{number}", to=(ADA,)))
    await world.run_until_idle()
    assert post.mails == {ADA: 4}
    for number in range(4):
        assert (await see(world, changelist_id=f"cl-{number}"))[0].status == "succeeded"


@pytest.mark.spec("R7", "K15", "004.25")
async def test_a_review_cannot_succeed_while_a_required_recipient_is_untold(deploy: Deploy) -> None:
    """Whatever a stage says: the end is written only beside evidence for everybody."""
    post = PostOffice()
    world = await deploy(post)
    asked = request(to=(ADA,))
    stored = await ask(world, asked)
    send = post.send

    async def and_one_more(message: Any, token: str) -> str:
        late = {"changelist_id": "cl-1", "recipient": BOB, "review_version": 1, "effect_key": "late", "now": 1}
        async with world.kernel.store.transaction() as tx:
            await tx.rows(deliveries.sql.plan_delivery, **late, position=9, required=1)
        return await send(message, token)

    post.send = and_one_more  # type: ignore[method-assign]
    await world.run_until_idle()
    after, _ = await see(world)
    assert await world.state(stored.job_id) == "dead"
    assert (after.status, after.stage, after.error_class) == ("failed", "notify", "SETTLE_FAILED")


@pytest.mark.spec("R1")
async def test_a_cancelled_review_has_failed(deploy: Deploy) -> None:
    world = await deploy(PostOffice())
    stored = await ask(world)
    await operate.cancel(world.kernel, stored.job_id, "olga")
    after, _ = await see(world)
    assert (after.status, after.error_class) == ("failed", "CANCELLED")
