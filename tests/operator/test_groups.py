"""Groups of dead letters: two bugs are two groups, and a caller's own mistake is nobody's work."""

from __future__ import annotations

import pytest
from tests.kernel.places import Deploy

from holdfast import App, CallError, Category, Context, Job, Retry, stage
from holdfast.core.failure import Failure, PublicFailure
from holdfast.operator.attention import Topic, what_asks
from holdfast.operator.desk import Desk
from holdfast.operator.letters import list_groups
from holdfast.operator.snapshot import snapshot
from holdfast.system import OpenSystem, System

app = App("shop")
ERRORS: dict[str, Exception] = {
    "a missing key": KeyError("order"),
    "another": KeyError("card"),
    "nought": ZeroDivisionError("by nought"),
    "a wrong branch": CallError.of(Category.VALIDATION, "BRANCH_UNKNOWN", "There is no such branch."),
}


@app.job()
class Sell(Job[str]):
    @stage(retry=Retry(attempts=1))
    async def charge(self, ctx: Context, what: str) -> None:
        raise ERRORS[what]

    def public_failure(self, why: Failure, stage: str) -> PublicFailure:
        return PublicFailure(why.error_class, by_user=why.category is Category.VALIDATION)


@pytest.mark.spec("K8", "K17")
async def test_two_bugs_are_two_groups_and_a_callers_mistake_is_in_the_quiet_lane(deploy: Deploy) -> None:
    world = await deploy(app)
    for what in ERRORS:
        await world.enqueue(Sell, what)
    await world.run_until_idle()
    desk = Desk([OpenSystem(System("shop", "shop", "DATABASE_URL", lambda env: app), world.kernel, {})])
    groups = (await list_groups(desk, 50))["items"]
    counted = {(group["last_error"].split(":")[0], group["cause"]): group["letters"] for group in groups}
    assert counted == {
        ("KeyError", "service"): 2,
        ("ZeroDivisionError", "service"): 1,
        ("There is no such branch.", "input"): 1,
    }
    view = await snapshot(world.kernel)
    assert (view.dead_letters_open, view.dead_letters_quiet) == (3, 1)
    (notice,) = what_asks(view)
    assert (notice.topic, notice.number) == (Topic.BUG, 3)
    (kind, stage), *_ = view.bugs_in
    assert f" configuration in '{stage}' of '{kind}'" in notice.sentence
