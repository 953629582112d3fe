"""What an attempt does with a job that its code does not know, and whose end counts for a parent."""

from __future__ import annotations

import pytest

from holdfast import App, Context, Job, stage
from holdfast.core.decide import StagePlan, decide
from holdfast.core.job import Claimed, State
from holdfast.core.outcome import Done, Outcome, Released, Unfit
from holdfast.kernel.attempt import run_attempt
from holdfast.kernel.settle import LeasedJob, _counts
from tests.kernel.places import Deploy, take

app = App("attempts")
NOW = 1_000_000
ROW = Claimed("j", "k", "q", "ask", State.PROCESSING, 7, 0, 0, 0, 2, 0, 0, None, None, None, None, None, "{}")


@app.job()
class Known(Job[str]):
    @stage()
    async def only(self, ctx: Context, text: str) -> None: ...


@pytest.mark.spec("K14")
@pytest.mark.parametrize("other", [{"kind": "attempts.other"}, {"stage": "gone"}])
async def test_what_this_code_does_not_declare_is_put_back_unrun(deploy: Deploy, other: dict[str, str]) -> None:
    world = await deploy(app)
    await world.enqueue(Known, "x")
    (job,) = await take(world.kernel)
    ending = await run_attempt(world.kernel, LeasedJob(job._replace(**other)))
    assert ending is not None and isinstance(ending.outcome, Unfit)
    assert "no app loaded here declares the stage" in ending.outcome.reason


@pytest.mark.spec("K3")
@pytest.mark.parametrize(
    ("join_id", "epoch", "outcome", "counts"),
    [("join", 0, Done(), True), ("join", 1, Done(), False), (None, 0, Done(), False), ("join", 0, Released(), False)],
)
def test_a_child_counts_once_for_its_parent_and_not_again_after_a_replay(
    join_id: str | None, epoch: int, outcome: Outcome, counts: bool
) -> None:
    row = ROW._replace(join_id=join_id, epoch=epoch)
    assert _counts(row, decide(row, outcome, StagePlan("ask"), None, NOW, 0.5)) is counts
