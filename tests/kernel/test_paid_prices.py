"""What a paid call cost is for the handler to say, and it may say anything: no answer is lost by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Cost
from tests.kernel.places import Deploy
from tests.kernel.test_paid import Model, Said, kept, started

WRONG_PRICES: list[Callable[[Said], Any]] = [
    lambda said: {}["usage"],
    lambda said: 5,
    lambda said: Cost(micros=float("nan")),  # type: ignore[arg-type]
    lambda said: Cost(micros=12.5),  # type: ignore[arg-type]
    lambda said: Cost(micros=10**30),
    lambda said: Cost(units={"tokens": float("inf")}),  # type: ignore[dict-item]
]


@pytest.mark.spec("K18", "K30")
@pytest.mark.parametrize("price", WRONG_PRICES, ids=["raises", "number", "nan", "float", "huge", "unit"])
async def test_a_price_that_is_none_loses_no_answer_and_holds_up_nobody(
    deploy: Deploy, price: Callable[[Said], Any]
) -> None:
    model = Model(runs=1, honours=False)
    world, job_id = await started(deploy, model)
    model.price = price
    await world.work()
    assert model.charges == len(await kept(world)) == 1
    model.price = lambda said: Cost(micros=7)
    other_id = await world.enqueue(model.job, "another")
    await world.run_until_idle()
    assert await world.state(other_id) == "succeeded" and not world.kernel.unrecorded
    letters = await world.dead_letters()
    for letter in letters:
        assert (letter["error_class"], letter["attempts_made"]) == ("USAGE_ERROR", 1)
        await world.mend_and_replay(letter["id"])
    await world.run_until_idle()
    assert await world.state(job_id) == "succeeded"
    assert model.charges == 2 + len(letters), "a retry reads the answer, a person's replay asks anew"
