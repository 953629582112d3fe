"""Half a mark is looked up before a mail is sent; a mark that the provider knows nothing of is taken back."""

from __future__ import annotations

import pytest

from holdfast.core.effect import token_of
from holdfast.kernel.ledger.verify import verify_once
from holdfast.tables import audit
from holdfast_systems.review.jobs import requeue_once
from tests.systems.review.conftest import Deploy
from tests.systems.review.post_office import ADA, BOB, ask, request, see
from tests.systems.review.test_send_and_mark import change, mail_of, office


@pytest.mark.spec("R6", "R7", "004.28")
@pytest.mark.parametrize("kind", ["token", "token and lookup", "lookup"])
async def test_a_mail_whose_id_the_provider_does_not_know_is_found_and_sent(deploy: Deploy, kind: str) -> None:
    """Marked with id and time, and never sent: both marks are cleared, the review is reopened, and only she is told."""
    post = office(kind)
    post.keeps_ids = True
    world = await deploy(post)
    await ask(world, request(to=(ADA, BOB)))
    await world.run_until_idle()
    lost = next(index for index, (_, to, _) in enumerate(post.delivered) if to == ADA)
    del post.delivered[lost]
    key = (await see(world))[1][ADA].effect_key
    await change(world, "UPDATE holdfast_effects SET provider_id = 'bogus' WHERE key = :key", key=key)
    world.clock.advance(600)
    await verify_once(world.kernel)
    assert "bogus" in post.asked_ids
    _, told = await see(world)
    assert (told[ADA].notification_id, told[ADA].notified_at) == (None, None) and told[BOB].status == "sent"
    assert await requeue_once(world.kernel) == 1
    assert (await see(world))[0].status == "in_progress"
    await world.run_until_idle()
    assert post.mails == {ADA: 1, BOB: 1} and (await see(world))[0].status == "succeeded"
    async with world.kernel.store.reading() as tx:
        assert [entry.action for entry in await audit.of_subject(tx, f"effect:{key}")] == ["effect.taken_back"]


@pytest.mark.spec("R5", "004.24")
@pytest.mark.parametrize("really", [True, False])
@pytest.mark.parametrize("kind", ["token", "lookup"])
async def test_a_notification_id_without_a_time_is_looked_up_before_a_mail(
    deploy: Deploy, kind: str, really: bool
) -> None:
    post = office(kind)
    post.keeps_ids = True
    world = await deploy(post)
    await ask(world, request(to=(ADA,)))
    world.script(mail_of(world), **{"timeout_after_effect" if really else "server_errors": 1})
    await world.work()
    (delivery,) = (await see(world))[1].values()
    half = f"id-{token_of(delivery.effect_key)[:12]}"
    await change(world, "UPDATE holdfast_effects SET status = 'planned', provider_id = :half", half=half)
    await world.run_until_idle()
    assert post.mails == {ADA: 1} and post.asked_ids == [half] and post.calls[ADA] == 1
    (delivery,) = (await see(world))[1].values()
    assert (delivery.status, delivery.notification_id) == ("sent", half) and delivery.notified_at
