"""Every route times every role. A route that is not in the table fails the test: nobody can forget one."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from tests.http.conftest import Client
from tests.roles import ROLES

ANYONE: frozenset[str] = frozenset()
PUBLIC = {"/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/docs.css"}
SIGNED = {"POST /api/callbacks/{queue}"}
"""The signature in the address is the permission; the test of callbacks forges some."""
ALLOWED: dict[str, frozenset[str]] = {
    "POST /api/tickets": frozenset(ROLES),
    "POST /api/wishes": frozenset({"learner"}),
    "POST /api/large": frozenset({"learner"}),
    "GET /api/wishes/{wish_id}/events": frozenset({"learner", "operator"}),
}
OPERATIONS = """
GET /overview; GET /jobs; GET /jobs/{job_id}; POST /jobs/{job_id}/cancel; GET /jobs/counts;
POST /jobs/bulk; POST /jobs/{job_id}/answer; GET /breakers; GET /breakers/{name}/history;
POST /breakers/{name}/open; POST /breakers/{name}/close; GET /outbox; POST /outbox/{message_id}/requeue; GET /effects;
POST /effects/answer; GET /audit; GET /costs; GET /workers; GET /schedules;
GET /dead-letters; GET /dead-letters/groups;
GET /charts; GET /changes; GET /pauses; POST /pauses/{sort}/{name}/pause; POST /pauses/{sort}/{name}/resume;
POST /workers/{name}/drain; POST /workers/{name}/undrain; GET /schedules/{name}/runs; POST /schedules/{name}/run;
POST /schedules/{name}/pause; POST /schedules/{name}/resume; POST /jobs/{job_id}/priority;
POST /jobs/{job_id}/run-now; POST /jobs/{job_id}/delete;
GET /dead-letters/{case_id}; POST /dead-letters/{case_id}/triage;
POST /dead-letters/{case_id}/remediate; POST /dead-letters/{case_id}/correct; POST /dead-letters/{case_id}/mend;
POST /dead-letters/{case_id}/replay; POST /dead-letters/{case_id}/resolve; POST /dead-letters/bulk/triage;
POST /dead-letters/bulk/remediate; POST /dead-letters/bulk/replay; POST /dead-letters/bulk/resolve;
GET /incidents; GET /incidents/{incident_id}; GET /incidents/{incident_id}/post-mortem;
POST /incidents/{incident_id}/acknowledge; POST /incidents/{incident_id}/assign;
POST /incidents/{incident_id}/comment; POST /incidents/{incident_id}/close;
POST /dead-letters/groups/{fingerprint}/mend; GET /replays; GET /replays/{replay_id};
POST /replays/{replay_id}/pause; POST /replays/{replay_id}/resume; POST /replays/{replay_id}/stop
"""
for line in OPERATIONS.replace("\n", " ").split(";"):
    verb, _, path = line.strip().partition(" ")
    ALLOWED[f"{verb} /api/ops{path}"] = frozenset({"operator"})
for request, allowed_roles in ALLOWED.items():
    if request.startswith("GET ") and "operator" in allowed_roles:
        ALLOWED[request] = allowed_roles | {"viewer"}


def described(web: FastAPI) -> dict[str, Any]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in web.openapi()["paths"].items()
        for method, operation in methods.items()
    }


def test_the_table_names_every_route(web: FastAPI) -> None:
    protected = {name for name in described(web) if name.partition(" ")[2] not in PUBLIC}
    assert protected - SIGNED == set(ALLOWED)


async def ask(client: httpx.AsyncClient, name: str) -> httpx.Response:
    verb, _, path = name.partition(" ")
    return await client.request(verb, re.sub(r"\{\w+\}", "0190a000-0000-7000-8000-000000000000", path))


@pytest.mark.spec("K8")
async def test_every_route_answers_only_to_its_roles(web: FastAPI, client: Client) -> None:
    web.state.stopping.set()
    wrong: list[str] = []
    for name, allowed in ALLOWED.items():
        for role in (None, *ROLES):
            signed_in = client() if role is None else client("someone", role)
            status = (await ask(signed_in, name)).status_code
            expected = 401 if role is None else 403
            fits = status not in (401, 403) and status < 500 if role in allowed else status == expected
            wrong += [] if fits else [f"{name} as {role}: {status}"]
    assert wrong == []


@pytest.mark.spec("K8")
async def test_a_session_names_what_each_role_may_change_and_no_document_is_made_for_it(
    web: FastAPI, client: Client
) -> None:
    """The console offers these. Nobody who opens it waits for the description of every operation to be made."""
    for role in ROLES:
        acts = (await client("someone", role).get("/api/session")).json()["acts"]
        allowed = {name for name, roles in ALLOWED.items() if role in roles and not name.startswith("GET ")} | SIGNED
        assert sorted(acts) == sorted(name.partition(" ")[2] for name in allowed), role
    assert web.openapi_schema is None


async def test_the_public_routes_need_nobody(client: Client) -> None:
    for path in sorted(PUBLIC):
        assert (await client().get(path)).status_code == 200, path


async def test_the_reference_page_has_no_script_of_its_own_and_names_every_route(web: FastAPI, client: Client) -> None:
    page = (await client().get("/docs")).text
    assert "<p>Answer: <code>200 application/json</code></p>" in page
    assert "<li><code>items</code>: list of JobRow</li>" in page and "<li><code>next</code>: text or null</li>" in page
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page)
    assert scripts and all(' src="static/' in where and not text for where, text in scripts) and "style=" not in page
    assert all(name.partition(" ")[2] in page for name in described(web))
