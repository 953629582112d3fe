"""Incidents over HTTP: one is listed, shown, taken, talked about and closed, and only by operators."""

from __future__ import annotations

import httpx
import pytest
from tests.http.conftest import Client

from holdfast.kernel.hold import force
from holdfast.kernel.kernel import Kernel
from holdfast.operator.incident_watch import watch_incidents
from holdfast.testing import HandClock

OPS = "/api/ops/incidents"


async def posted(client: httpx.AsyncClient, path: str, body: dict[str, str] | None = None) -> tuple[int, str]:
    answer = await client.post(f"{OPS}{path}", json=body)
    return answer.status_code, answer.json().get("code", answer.json().get("state"))


@pytest.mark.spec("K17")
async def test_an_incident_from_its_beginning_to_its_page(kernel: Kernel, client: Client, clock: HandClock) -> None:
    operator = client("olga", "operator")
    assert (await operator.get(OPS)).json() == {"items": [], "next": None}
    await force(kernel, "oracle", open=True, actor="olga", reason="it lies")
    await watch_incidents(kernel)
    (item,) = (await operator.get(f"{OPS}?state=open")).json()["items"]
    assert (item["system"], item["topic"], item["subject"]) == ("wishes", "provider_down", "oracle")
    assert "it lies" in item["now"]["sentence"] and item["now"]["to_do"]
    id = item["id"]
    assert await posted(operator, f"/{id}/close", {"summary": "x"}) == (409, "NOT_ALLOWED")
    assert await posted(operator, f"/{id}/acknowledge") == (200, "open")
    assert await posted(operator, f"/{id}/acknowledge") == (409, "NOT_ALLOWED")
    assert await posted(operator, f"/{id}/comment", {"text": ""}) == (422, "INVALID_INPUT")
    assert await posted(operator, f"/{id}/comment", {"text": "asked the other oracle"}) == (200, "open")
    assert await posted(operator, f"/{id}/assign", {"assignee": "ben"}) == (200, "open")
    await force(kernel, "oracle", open=False, actor="olga", reason="it says sorry")
    clock.advance(15)
    await watch_incidents(kernel)
    assert await posted(operator, f"/{id}/close", {"summary": "it lied"}) == (200, "closed")
    shown = (await operator.get(f"{OPS}/{id}")).json()
    assert (shown["assignee"], shown["acknowledged_by"], shown["summary"]) == ("ben", "olga", "it lied")
    page = await operator.get(f"{OPS}/{id}/post-mortem")
    assert page.headers["content-type"].startswith("text/markdown") and "asked the other oracle" in page.text
    overview = (await operator.get("/api/ops/overview")).json()["items"][0]
    assert (overview["incidents"], overview["light"]) == (0, "green")
    assert (await client("ann", "learner").get(OPS)).status_code == 403


@pytest.mark.spec("K17")
async def test_the_audit_of_people_leaves_out_the_kernels_own_lines(kernel: Kernel, client: Client) -> None:
    operator = client("olga", "operator")
    await force(kernel, "oracle", open=True, actor="olga", reason="it lies")
    await watch_incidents(kernel)

    async def actors(query: str) -> set[str]:
        return {item["actor"] for item in (await operator.get(f"/api/ops/audit?{query}")).json()["items"]}

    assert await actors("") == {"olga", "kernel"}
    assert await actors("people=true") == {"olga"}
