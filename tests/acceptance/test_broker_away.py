"""A broker that is away when the processes start: every duty begins without it, and goes on when it comes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.acceptance.grading_site import ENDS, PATIENCE_S, GradingSite, MainApp
from tests.acceptance.process import until
from tests.acceptance.test_stopping import said
from tests.services.proxy import Proxy

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(grading_site: GradingSite) -> Iterator[Proxy]:
    """The site's broker behind a port on which nobody listens yet."""
    made = Proxy(urlsplit(grading_site.broker).port or 5672)
    grading_site.broker = grading_site.broker.replace(f":{made._target_port}/", f":{made.port}/")
    yield made
    made.close()


async def ready(main: MainApp) -> tuple[int, dict[str, Any]]:
    async with httpx.AsyncClient(base_url=main.url, timeout=30, verify=False) as client:
        assert (await client.get("/healthz")).status_code == 200
        answer = await client.get("/readyz")
    return answer.status_code, answer.json()


@pytest.mark.spec("000.9", "000.19", "001.23", "K27", "G12")
async def test_everything_goes_on_without_a_restart_when_the_broker_comes(
    grading_site: GradingSite, broker: Proxy
) -> None:
    service = grading_site.service()
    main = await grading_site.main(OUTBOX_STALE_THRESHOLD_MS="500", GRADING_SLA_WRITING_SEC="120")
    kept = await main.submit("kept while the broker is away")
    await said(main.process, "transport.unreachable", "outbox.stale")
    await said(service, "transport.unreachable", "worker.started")
    code, body = await ready(main)
    assert code == 503
    for duty in ("broker", "relay", "consume grading.callback"):
        assert "waits for the broker" in body["duties"]["grading-main"][duty], body
        assert duty in body["systems"]["grading-main"]
    assert body["duties"]["grading-main"]["sweep"] == "running"
    broker.open()
    shown = await main.until_status(kept["id"], *ENDS)
    assert shown["status"] in ENDS

    async def is_ready() -> bool:
        return (await ready(main))[0] == 200

    await until(is_ready, "the main app to be ready", PATIENCE_S, process=main.process)
    blamed = grading_site.in_main("SELECT COUNT(*) AS n FROM holdfast_outbox WHERE retry_count > 0")
    assert blamed == [{"n": 0}], "no message is blamed for a broker, or a queue, that was not there yet"


@pytest.mark.spec("000.9", "000.19", "G12")
async def test_what_is_past_its_deadline_times_out_without_a_broker(grading_site: GradingSite, broker: Proxy) -> None:
    main = await grading_site.main(GRADING_SLA_WRITING_SEC="0.5")
    kept = await main.submit("nobody grades it")
    shown = await main.until_status(kept["id"], "FAILED")
    assert shown["failureReason"] == "TIMEOUT"


@pytest.mark.spec("K27")
async def test_a_broker_that_goes_away_later_is_missed_by_name(grading_site: GradingSite, broker: Proxy) -> None:
    broker.open()
    main = await grading_site.main()

    async def answers(code: int) -> bool:
        return (await ready(main))[0] == code

    await until(lambda: answers(200), "the main app to be ready", PATIENCE_S, process=main.process)
    broker.close()
    await until(lambda: answers(503), "the main app to miss the broker", PATIENCE_S, process=main.process)
    assert "waits for the broker" in (await ready(main))[1]["duties"]["grading-main"]["consume grading.callback"]
