"""A dead review is corrected and replayed: a recipient is mailed alone within its version, a source is fetched anew."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import InvalidInput, NotAllowed
from holdfast.kernel import effects, operate
from holdfast.kernel.hands.correct import Correction, correct
from holdfast.testing import World
from holdfast_systems.review import reviews
from tests.systems.review.conftest import Deploy
from tests.systems.review.post_office import ADA, BOB, CY, Desk, PostOffice, ask, request, see

pytestmark = pytest.mark.spec("R4", "R7", "K8", "004.13")
TYPO = "cyy@example.test"


async def dead(world: World, **more: Any) -> str:
    await ask(world, request(**more))
    await world.run_until_idle()
    stored, _ = await see(world)
    assert stored.status == "failed" and stored.dead_letter_id is not None
    return stored.dead_letter_id


async def mend(world: World, case_id: str, **values: Any) -> Correction:
    return await correct(
        world.kernel, case_id, actor="olga", values={name.replace("__", "."): value for name, value in values.items()}
    )


async def replay(world: World, case_id: str) -> str:
    done = await operate.replay(world.kernel, case_id, actor="olga")
    await world.run_until_idle()
    return done.stage


async def test_a_corrected_recipient_is_mailed_alone_within_its_version(deploy: Deploy, desk: Desk) -> None:
    post = PostOffice(refused={TYPO})
    world = await deploy(post)
    case_id = await dead(world, to=(ADA, TYPO, BOB))
    assert post.mails == {ADA: 1, BOB: 1}
    before = (await see(world))[1]
    done = await mend(world, case_id, recipients__1__address=CY)
    assert [tuple(change) for change in done.changes] == [("recipients.1.address", TYPO, CY)]
    assert (done.replay_stage, done.kept) == ("notify", ("fetch", "llm"))
    assert sorted(status for _, status in done.effects) == ["sent", "sent"]
    _, told = await see(world)
    assert (told[TYPO].status, told[TYPO].superseded_by, told[CY].status) == ("superseded", CY, "pending")
    assert told[TYPO].superseded_at is not None and told[CY].effect_key != told[TYPO].effect_key
    assert await replay(world, case_id) == "notify"
    stored, told = await see(world)
    assert post.mails == {ADA: 1, BOB: 1, CY: 1} and (stored.status, stored.review_version) == ("succeeded", 1)
    assert post.calls == {ADA: 1, BOB: 1, CY: 1, TYPO: 1}, "nobody is asked twice"
    for name in (ADA, BOB):
        assert told[name] == before[name] or told[name].notification_id == before[name].notification_id
    assert (told[CY].status, told[TYPO].status, told[CY].notification_id is not None) == ("sent", "superseded", True)
    assert desk.fetched == desk.criticised == 1, "nothing else is done or paid for again"


async def test_who_was_mailed_is_not_taken_out(deploy: Deploy) -> None:
    post = PostOffice(refused={TYPO})
    world = await deploy(post)
    case_id = await dead(world, to=(ADA, TYPO))
    with pytest.raises(NotAllowed, match="has been mailed already"):
        await mend(world, case_id, recipients__0__address=BOB)
    assert {row.status for row in (await see(world))[1].values()} == {"sent", "failed"}


async def test_a_recipient_may_be_taken_out_and_brought_back(deploy: Deploy) -> None:
    post = PostOffice(refused={TYPO})
    world = await deploy(post)
    case_id = await dead(world, to=(ADA, TYPO))
    await mend(world, case_id, recipients__1__address=CY)
    await mend(world, case_id, recipients__1__address=TYPO)
    _, told = await see(world)
    assert (told[TYPO].superseded_at, told[CY].status) == (None, "superseded")
    post.refused.clear()
    await replay(world, case_id)
    assert post.mails == {ADA: 1, TYPO: 1} and (await see(world))[0].status == "succeeded"


async def test_a_recipient_who_has_left_is_taken_out(deploy: Deploy) -> None:
    post = PostOffice(refused={TYPO})
    world = await deploy(post)
    case_id = await dead(world, to=(ADA, TYPO))
    await mend(world, case_id, recipients=[{"address": ADA}])
    await replay(world, case_id)
    stored, told = await see(world)
    assert post.mails == {ADA: 1} and stored.status == "succeeded" and told[TYPO].status == "superseded"


async def test_a_correction_to_somebody_who_is_there_already_mails_nobody_twice(deploy: Deploy) -> None:
    post = PostOffice(refused={TYPO})
    world = await deploy(post)
    case_id = await dead(world, to=(ADA, TYPO))
    await mend(world, case_id, recipients__1__address=ADA.upper())
    await replay(world, case_id)
    assert post.mails == {ADA: 1} and (await see(world))[0].status == "succeeded"


async def test_a_corrected_source_is_fetched_and_reviewed_anew(deploy: Deploy, desk: Desk) -> None:
    world = await deploy(post := PostOffice())
    good, desk.diff = desk.diff, "no diff at all\n"
    case_id = await dead(world, to=(ADA,))
    assert (await see(world))[0].error_class == "DIFF_UNREADABLE"
    desk.diff = good
    done = await mend(world, case_id, source__url="https://example.test/2.diff")
    assert done.replay_stage == "fetch"
    assert (await see(world))[0].source["url"] == "https://example.test/2.diff", "the review shows what it is of"
    assert await replay(world, case_id) == "fetch"
    assert post.mails == {ADA: 1} and (await see(world))[0].status == "succeeded"


async def test_a_source_corrected_after_the_review_starts_at_the_fetch_and_says_so(deploy: Deploy, desk: Desk) -> None:
    post = PostOffice(refused={TYPO})
    world = await deploy(post)
    case_id = await dead(world, to=(ADA, TYPO))
    done = await mend(world, case_id, source__url="https://example.test/2.diff", recipients__1__address=BOB)
    assert (done.replay_stage, done.dropped) == ("fetch", ("fetch", "llm")) and "begins at 'fetch'" in done.reason()
    assert [status for _, status in done.effects] == ["sent"], "one mail went out with the old one; the preview says it"
    await replay(world, case_id)
    assert (desk.fetched, desk.criticised) == (2, 2) and post.mails == {ADA: 1, BOB: 1}


async def test_another_title_is_no_reason_to_fetch_again(deploy: Deploy, desk: Desk) -> None:
    world = await deploy(PostOffice(refused={TYPO}))
    case_id = await dead(world, to=(TYPO,))
    done = await mend(world, case_id, title="A better one", recipients__0__address=ADA)
    assert done.replay_stage == "llm"
    await replay(world, case_id)
    assert (await see(world))[0].title == "A better one" and desk.fetched == 1


@pytest.mark.spec("R5")
async def test_while_a_mail_is_in_doubt_no_other_mail_is_made_of_it(deploy: Deploy) -> None:
    post = PostOffice("neither", can_look=False)
    post.silent[ADA] = 1
    world = await deploy(post)
    case_id = await dead(world, to=(ADA,))
    with pytest.raises(NotAllowed, match="may have been sent"):
        await mend(world, case_id, title="Another")
    key = (await see(world))[1][ADA].effect_key
    await effects.answer(world.kernel, key, sent=False, provider_id=None, actor="olga")
    await mend(world, case_id, title="Another")
    await replay(world, case_id)
    assert post.mails == {ADA: 1} and (await see(world))[0].status == "succeeded"


@pytest.mark.parametrize(
    ("field", "value"),
    [("changelist_id", "cl-2"), ("review_version", 2), ("trusted", True), ("sender", "x@y.test"), ("dated_at", 1)],
)
async def test_what_makes_a_review_the_one_it_is_cannot_be_corrected(deploy: Deploy, field: str, value: Any) -> None:
    world = await deploy(PostOffice(refused={TYPO}))
    case_id = await dead(world, to=(TYPO,))
    with pytest.raises(InvalidInput, match="Only source, title and recipients"):
        await mend(world, case_id, **{field: value})
    with pytest.raises(InvalidInput, match=r"recipients\.0\.address"):
        await mend(world, case_id, recipients__0__address=7)


@pytest.mark.parametrize(
    "recipients",
    [
        [],
        ["nobody at all"],
        ["a@example.test, b@example.test"],
        ["Ada <ada@example.test>"],
        ["a@example.test\nBcc: b@example.test"],
        [f"r{number}@example.test" for number in range(101)],
    ],
)
async def test_a_correction_that_could_not_be_mailed_is_refused(deploy: Deploy, recipients: list[str]) -> None:
    world = await deploy(PostOffice(refused={TYPO}))
    case_id = await dead(world, to=(TYPO,))
    with pytest.raises(InvalidInput, match="recipients"):
        await mend(world, case_id, recipients=[{"address": address, "required": True} for address in recipients])
    assert set((await see(world))[1]) == {TYPO}, "nothing of it is written"


async def test_a_repeated_request_under_the_key_is_answered_with_the_corrected_review(deploy: Deploy) -> None:
    world = await deploy(PostOffice(refused={TYPO}))
    case_id = await dead(world, to=(ADA, TYPO))
    await mend(world, case_id, recipients__1__address=CY)
    async with world.kernel.store.transaction() as tx:
        answer = await reviews.submit(world.kernel, tx, request(to=(ADA, TYPO)), sender="reviews@example.test")
    assert (answer.is_new, answer.body_differs) == (False, False), "it is what was asked for under the key"
