"""The failure matrix of the source, section 8.2: a worker dies between the two steps, and mails are counted outside."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.kernel import effects
from holdfast.stores.statement import _statement
from holdfast.testing import World
from holdfast_systems.review.jobs import requeue_once
from tests.systems.review.conftest import Deploy
from tests.systems.review.post_office import ADA, BOB, CY, Desk, PostOffice, ask, request, see

ALL_ONCE = {ADA: 1, BOB: 1, CY: 1}
CLASSES = {
    "token": PostOffice("token", can_look=False),
    "token and lookup": PostOffice("token", can_look=True),
    "lookup": PostOffice("lookup", can_look=True),
    "neither": PostOffice("neither", can_look=False),
}
KNOWING = ["token", "token and lookup", "lookup"]
# Every failpoint that a worker passes twice on the way of a review.
PASSED = [
    *("attempt.before_handler", "attempt.after_handler", "settle.before_commit", "settle.after_commit"),
    *("call.before", "call.after", "breaker.before_commit"),
    *("effect.before_send", "effect.after_send", "effect.after_mark"),
]


def office(kind: str) -> PostOffice:
    made = CLASSES[kind]
    return PostOffice(made.effects, made.can_look)


def mail_of(world: World) -> Any:
    return world.kernel.registry.provider("post")


async def change(world: World, text: str, **params: Any) -> None:
    """Damage that no code of ours does."""
    async with world.kernel.store.transaction() as tx:
        await tx.rows(_statement("damage", {None: text}), **params)


@pytest.mark.spec("R4", "R5", "R7", "004.22", "004.23")
@pytest.mark.parametrize("kind", CLASSES)
async def test_without_faults_everybody_is_told_once_with_one_write(deploy: Deploy, kind: str) -> None:
    post = office(kind)
    world = await deploy(post)
    await ask(world)
    _, planned = await see(world)
    assert {row.status for row in planned.values()} == {"pending"} and len(planned) == 3, "rows before any send"
    await world.run_until_idle()
    stored, told = await see(world)
    assert post.mails == ALL_ONCE and stored.status == "succeeded" and post.lookups == 0
    for row in told.values():
        assert (row.status, row.attempts) == ("sent", 1) and row.notification_id and row.notified_at


@pytest.mark.spec("R5", "R6", "K12", "004.27")
@pytest.mark.parametrize("kind", KNOWING)
@pytest.mark.parametrize("visit", [1, 2, 3])
async def test_sent_but_not_marked_is_backfilled_and_not_sent_again(deploy: Deploy, kind: str, visit: int) -> None:
    post = office(kind)
    world = await deploy(post)
    await ask(world)
    world.crash_at("effect.after_send", visit=visit)
    await world.run_until_idle()
    stored, told = await see(world)
    assert world.crashes == 1 and post.mails == ALL_ONCE and stored.status == "succeeded"
    assert all(row.notification_id and row.notified_at for row in told.values())
    assert post.lookups == (1 if post.can_look else 0)


@pytest.mark.spec("R6", "004.31")
@pytest.mark.parametrize("kind", KNOWING)
async def test_a_timeout_after_the_send_is_looked_into_before_any_other_send(deploy: Deploy, kind: str) -> None:
    post = office(kind)
    world = await deploy(post)
    world.script(mail_of(world), timeout_after_effect=2)
    await ask(world)
    await world.run_until_idle()
    assert post.mails == ALL_ONCE and (await see(world))[0].status == "succeeded"


@pytest.mark.spec("R5", "R6", "004.31")
@pytest.mark.parametrize("kind", KNOWING)
@pytest.mark.parametrize("place", PASSED)
async def test_a_crash_anywhere_tells_everybody_exactly_once(deploy: Deploy, kind: str, place: str) -> None:
    post = office(kind)
    world = await deploy(post)
    await ask(world)
    world.crash_at(place, visit=2)
    await world.run_until_idle()
    assert world.crashes == 1 and post.mails == ALL_ONCE and (await see(world))[0].status == "succeeded"


@pytest.mark.spec("R6")
@pytest.mark.parametrize("happened", [True, False])
async def test_where_nobody_can_know_a_person_is_asked_and_the_others_are_told(deploy: Deploy, happened: bool) -> None:
    post = office("neither")
    world = await deploy(post)
    stored = await ask(world)
    world.crash_at("effect.after_send" if happened else "effect.before_send")
    await world.run_until_idle()
    stored, told = await see(world)
    assert post.mails == (ALL_ONCE if happened else {BOB: 1, CY: 1}), "never sent again after a doubt"
    assert (stored.status, stored.error_class) == ("failed", "EFFECT_AMBIGUOUS")
    assert [row.status for row in told.values()] == ["needs_person", "sent", "sent"]
    await effects.answer(world.kernel, told[ADA].effect_key, sent=happened, provider_id=None, actor="olga")
    assert stored.dead_letter_id is not None
    await world.mend_and_replay(stored.dead_letter_id)
    await world.run_until_idle()
    assert post.mails == ALL_ONCE and (await see(world))[0].status == "succeeded"


@pytest.mark.spec("R6", "K12")
@pytest.mark.parametrize("kind", ["token and lookup", "lookup"])
async def test_marked_but_not_sent_is_looked_up_cleared_and_sent_with_an_alert(deploy: Deploy, kind: str) -> None:
    """Somebody marked the row before the send, and the job goes on afterwards."""
    post = office(kind)
    world = await deploy(post)
    world.script(mail_of(world), server_errors=1)
    await ask(world, request(to=(ADA,)))
    await world.work()
    await change(world, "UPDATE holdfast_effects SET status = 'sent', marked_at = 1, provider_id = NULL")
    assert (await see(world))[1][ADA].status == "unverified"
    await world.run_until_idle()
    _, told = await see(world)
    assert post.mails == {ADA: 1} and post.lookups == 1 and told[ADA].status == "sent"
    assert told[ADA].notified_at != 1 and told[ADA].notification_id


@pytest.mark.spec("R6", "R7")
@pytest.mark.parametrize("kind", ["token and lookup", "lookup"])
async def test_a_finished_review_whose_mail_never_went_out_is_reopened_and_sent(deploy: Deploy, kind: str) -> None:
    post = office(kind)
    world = await deploy(post)
    await ask(world, request(to=(ADA, BOB)))
    await world.run_until_idle()
    lost = next(index for index, (_, to, _) in enumerate(post.delivered) if to == ADA)
    first = post.delivered.pop(lost)
    key = (await see(world))[1][ADA].effect_key
    await change(world, "UPDATE holdfast_effects SET provider_id = NULL WHERE key = :key", key=key)
    world.clock.advance(600)
    await world.tick()
    _, told = await see(world)
    assert told[ADA].notified_at is None, "the lookup took the mark back"
    assert await requeue_once(world.kernel) == 1 and await requeue_once(world.kernel) == 0
    assert (await see(world))[0].status == "in_progress", "not succeeded while somebody has not been told"
    await world.run_until_idle()
    assert post.mails == {ADA: 1, BOB: 1} and (await see(world))[0].status == "succeeded"
    assert post.delivered[-1] == first, "the same token and the same bytes"
    assert await requeue_once(world.kernel) == 0


@pytest.mark.spec("R6", "004.29")
@pytest.mark.parametrize("kind", ["token and lookup", "lookup"])
async def test_a_doubt_in_the_last_attempt_is_looked_into_before_the_review_fails(deploy: Deploy, kind: str) -> None:
    post = office(kind)
    post.failing[ADA] = 4
    world = await deploy(post)
    await ask(world, request(to=(ADA,)))
    for _ in range(4):
        await world.work()
        world.clock.advance(70)
    world.script(mail_of(world), timeout_after_effect=1)
    await world.run_until_idle()
    stored, told = await see(world)
    assert post.mails == {ADA: 1} and stored.status == "succeeded" and told[ADA].notification_id
    assert post.calls[ADA] == 5


@pytest.mark.spec("R6", "004.7", "004.29")
async def test_a_doubt_in_the_last_attempt_that_nobody_can_look_into_is_left_to_a_replay(deploy: Deploy) -> None:
    """A sixth send under the token would be safe, but five are five; a replay is a new budget, and sends one mail."""
    post = office("token")
    post.failing[ADA] = 4
    world = await deploy(post)
    await ask(world, request(to=(ADA,)))
    for _ in range(4):
        await world.work()
        world.clock.advance(70)
    world.script(mail_of(world), timeout_after_effect=1)
    await world.run_until_idle()
    stored, told = await see(world)
    assert post.calls[ADA] == 5 and stored.status == "failed" and told[ADA].status in ("unknown", "needs_person")
    assert stored.dead_letter_id is not None
    if told[ADA].status == "needs_person":
        await effects.answer(world.kernel, told[ADA].effect_key, sent=False, provider_id=None, actor="olga")
    await world.mend_and_replay(stored.dead_letter_id)
    await world.run_until_idle()
    assert post.mails == {ADA: 1} and (await see(world))[0].status == "succeeded"


HOW = {"refused for now": "failing", "no answer": "silent"}


@pytest.mark.spec("R3", "R6", "004.7")
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", CLASSES)
async def test_five_sends_are_five_and_a_replay_has_five_more(deploy: Deploy, kind: str, how: str) -> None:
    post = office(kind)
    getattr(post, HOW[how])[ADA] = 100
    world = await deploy(post)
    await ask(world, request(to=(ADA, BOB)))
    await world.run_until_idle()
    most = 1 if (kind, how) == ("neither", "no answer") else 5
    for round_ in (1, 2):
        stored, told = await see(world)
        assert stored.status == "failed" and post.mails == {BOB: 1} and post.calls == {ADA: most * round_, BOB: 1}
        assert told[ADA].attempts == most * round_, "the delivery's row counts what was sent"
        (letter,) = await world.dead_letters()
        assert letter["attempts_made"] == (most if kind != "neither" or how != "no answer" else 2)
        if round_ == 1:
            if told[ADA].status in ("needs_person", "unknown"):
                await effects.answer(world.kernel, told[ADA].effect_key, sent=False, provider_id=None, actor="olga")
            await world.mend_and_replay(letter["id"])
            await world.run_until_idle()


@pytest.mark.spec("R6", "004.7")
@pytest.mark.parametrize("kind", KNOWING)
@pytest.mark.parametrize("crashes", [1, 2])
async def test_what_a_lost_worker_sent_counts_among_the_five(deploy: Deploy, kind: str, crashes: int) -> None:
    """Its attempt is free; its send was one."""
    post = office(kind)
    post.silent[ADA] = 100
    world = await deploy(post)
    await ask(world, request(to=(ADA,)))
    world.crash_at("breaker.before_commit", visit=3)  # after the send, before what became of it is written
    if crashes == 2:
        world.crash_at("effect.before_send", visit=3)  # begun, and nothing sent: that it was not, nobody knows
    await world.run_until_idle()
    assert world.crashes == crashes and (await see(world))[0].status == "failed"
    assert post.calls[ADA] == 6 - crashes and (await see(world))[1][ADA].attempts == 5


@pytest.mark.spec("R6", "004.7")
@pytest.mark.parametrize("blind", [1, 3, 100])
@pytest.mark.parametrize("kind", ["token and lookup", "lookup"])
async def test_a_provider_that_cannot_be_asked_is_sent_no_more_than_five(deploy: Deploy, kind: str, blind: int) -> None:
    post = office(kind)
    post.silent[ADA], post.blind = 100, blind
    world = await deploy(post)
    await ask(world, request(to=(ADA,)))
    await world.run_until_idle()
    stored, _ = await see(world)
    assert post.calls[ADA] <= 5 and post.mails == {} and stored.status == "failed"
    (letter,) = await world.dead_letters()
    assert letter["attempts_made"] == 5 and post.calls[ADA] + min(blind, 4) >= 5


@pytest.mark.spec("R6", "R7", "004.7")
@pytest.mark.parametrize("kind", ["token and lookup", "lookup"])
async def test_the_last_look_at_one_mail_sends_no_other_a_sixth_time(deploy: Deploy, kind: str) -> None:
    post = office(kind)
    post.silent[ADA], post.failing[BOB] = 100, 100
    world = await deploy(post)
    await ask(world, request(to=(ADA, BOB)))
    await world.run_until_idle()
    assert post.calls[BOB] == 5 and post.calls[ADA] <= 5 and (await see(world))[0].status == "failed"
    assert kind == "lookup" or post.calls[ADA] == 5, "only a late mailbox has to be waited for"


@pytest.mark.spec("R6", "R3")
@pytest.mark.parametrize("kind", KNOWING)
async def test_a_provider_that_never_answers_ends_in_a_dead_letter(deploy: Deploy, kind: str) -> None:
    """The extra look is granted once: the job does not circle for ever, and the row says that nobody knows."""
    post = office(kind)
    world = await deploy(post)
    world.script(mail_of(world), timeouts=40)
    await ask(world, request(to=(ADA,)))
    await world.run_until_idle()
    stored, told = await see(world)
    assert stored.status == "failed" and told[ADA].status in ("unknown", "needs_person", "pending", "retrying")
    assert told[ADA].attempts <= 5 and post.mails == {}


@pytest.mark.spec("R5", "004.23")
async def test_every_attempt_sends_the_same_bytes_under_the_same_token(deploy: Deploy, desk: Desk) -> None:
    post = PostOffice("neither", can_look=False)  # it keeps every copy
    world = await deploy(post)
    world.script(mail_of(world), timeout_after_effect=1)
    await ask(world, request(to=(ADA,)))
    await world.work()
    world.clock.advance(3_600)
    await change(world, "UPDATE holdfast_effects SET status = 'planned'")
    await world.run_until_idle()
    assert len(post.delivered) == 2 and post.delivered[0] == post.delivered[1]


@pytest.mark.spec("R6")
async def test_what_another_provider_may_have_sent_is_not_sent_by_a_new_one(deploy: Deploy) -> None:
    old, new = PostOffice(name="old-post"), PostOffice(name="new-post")
    before = await deploy(old)
    await ask(before, request(to=(ADA,)))
    before.crash_at("effect.after_send")
    await before.tick()
    after = await deploy(new)
    await after.run_until_idle()
    stored, told = await see(after)
    assert old.mails == {ADA: 1} and new.mails == {} and new.lookups == 0
    assert (told[ADA].status, stored.error_class) == ("needs_person", "EFFECT_AMBIGUOUS")
