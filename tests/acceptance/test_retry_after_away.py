"""A Retry-After that comes while the database is away: kept in the process, and written as soon as it can be."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from tests.acceptance.grading_site import ENDS, PATIENCE_S, GradingSite
from tests.acceptance.model_endpoint import Answer
from tests.acceptance.process import until
from tests.services.proxy import Proxy, behind

pytestmark = pytest.mark.slow

WAIT_S = 3


@pytest.mark.spec("K9", "G6")
@pytest.mark.parametrize("trouble", ["refuse", "swallow"])
async def test_a_retry_after_is_obeyed_although_the_database_was_away_when_it_came(
    grading_site: GradingSite, trouble: str
) -> None:
    site, model = grading_site, grading_site.model
    main = await site.main()
    port = int(site.service_db.rpartition(":")[2].partition("/")[0])
    proxy = Proxy(port)
    proxy.open()
    try:
        site.service(GRADING_DATABASE_URL=behind(proxy, site.service_db))
        model.next.append(Answer(429, {"Retry-After": str(WAIT_S)}))
        with model.held():
            submissions = [await main.submit(f"n{number}") for number in range(3)]
            await until(lambda: _called(site), "the model to be called", PATIENCE_S, process=site.processes[-1])
            getattr(proxy, trouble)()
            told_at = time.time()
        await until(lambda: _is_past(told_at + 1), "a second without a database", 5)
        proxy.open()
        for submission in submissions:
            await main.until_status(submission["id"], *ENDS)
    finally:
        proxy.close()
    calls = [call.at_s for call in model.calls]
    later = [at for at in calls if at > told_at + 0.3]
    assert later and min(later) >= told_at + WAIT_S, f"told at {told_at}, called at {calls}"
    assert all(sooner <= after for sooner, after in pairwise(calls))


async def _called(site: GradingSite) -> bool:
    return len(site.model.calls) >= 1


async def _is_past(at_s: float) -> bool:
    return time.time() > at_s
