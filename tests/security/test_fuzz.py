"""Requests that nobody thought of, made from the OpenAPI description, as every role: no 5xx, and every error a problem.

The cases are the same in every run. A part of them names things that exist, so that the handlers behind the checks
are reached too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from tests.roles import ROLES
from tests.security.deployment import Deployment, deployed

from holdfast.http.problem import MEDIA_TYPE
from holdfast.kernel.hold import force
from holdfast.operator.incident_watch import watch_incidents

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
CASES = 4
URL_LENGTH_MAX = 60_000  # a longer one is refused by the server in front of the application
BOUNDED = settings(
    database=None,
    derandomize=True,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@dataclass
class Fuzzed:
    place: Deployment
    runner: asyncio.Runner
    schema: Any
    known: dict[str, list[str]]
    clients: list[httpx.AsyncClient]
    refused: dict[str, list[httpx.AsyncClient]] = field(default_factory=dict)
    """Per operation, who may not ask; looked up once for both modes."""


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    """A deployment with something of everything in it; its event streams end at once."""
    with asyncio.Runner() as runner:
        opening = deployed(tmp_path_factory.mktemp("fuzz"))
        place = runner.run(opening.__aenter__())
        known = runner.run(_furnished(place))
        place.web.state.stopping.set()
        schema = schemathesis.openapi.from_dict(place.web.openapi())
        schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
        clients = [place.client(), *(place.client("someone", role) for role in ROLES)]
        yield Fuzzed(place, runner, schema, known, clients)
        runner.run(opening.__aexit__(None, None, None))


async def _furnished(place: Deployment) -> dict[str, list[str]]:
    """Work of every kind by the caller of the test, one of it dead; the names and ids that requests may use."""
    essay = await place.submission("someone")
    document = await place.conversion("someone")
    await place.review("cl-1", source={"type": "url", "url": "http://127.0.0.1/private.diff"})
    operator = place.client("olga", "operator")

    async def buried() -> bool:
        return bool((await operator.get("/api/ops/dead-letters")).json()["items"])

    async def converted() -> bool:
        return (await place.client("someone").get(f"/api/jobs/{document['id']}")).json()["status"] == "complete"

    async with place.at_work():
        await place.until("review", buried)
        await place.until("conversion", converted)
    for system in place.systems:
        system.kernel.duties.clear()  # nobody works from here on: what a duty waited for at its end is no answer
    letters = (await operator.get("/api/ops/dead-letters")).json()["items"]
    jobs = (await operator.get("/api/ops/jobs")).json()["items"]
    breakers = (await operator.get("/api/ops/breakers")).json()["items"]
    name = next(each["name"] for each in breakers if each["system"] == "review")
    await force(place.system("review").kernel, name, open=True, actor="olga", reason="for an incident")
    await watch_incidents(place.system("review").kernel)
    incidents = (await operator.get("/api/ops/incidents")).json()["items"]
    assert incidents, "the routes of incidents would not be reached"
    return {
        "submission_id": [essay["id"]],
        "job_id": [document["id"], *(one["id"] for one in jobs)],
        "changelist_id": ["cl-1"],
        "review_version": ["1"],
        "case_id": [one["id"] for one in letters],
        "incident_id": [each["id"] for each in incidents],
        "name": [*(each["name"] for each in breakers), *(each["kind"] for each in jobs[:1])],
        "sort": ["kind", "queue"],
        "system": [one.name for one in place.systems],
    }


@pytest.mark.spec("K30")
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_request_is_answered_with_5xx_and_every_error_is_a_problem(fuzzed: Fuzzed, mode: GenerationMode) -> None:
    """Each is made once and sent by two of those who may ask, in turn, so that every role has sent some."""
    wrong: list[str] = []
    for found in fuzzed.schema.get_all_operations():
        wrong += _faults(fuzzed, found.ok(), mode)
    assert wrong == []


def _faults(fuzzed: Fuzzed, operation: Any, mode: GenerationMode) -> list[str]:
    wrong: list[str] = []
    if operation.label not in fuzzed.refused:
        fuzzed.refused[operation.label] = [
            client for client in fuzzed.clients if _status(fuzzed, client, operation) in (401, 403)
        ]
    # Whoever is refused is refused before anything is read: once in each mode is enough. The others take turns.
    refused = list(fuzzed.refused[operation.label])
    turns = cycle([client for client in fuzzed.clients if client not in refused])
    able = len(fuzzed.clients) - len(refused)

    @settings(BOUNDED, max_examples=CASES)
    @given(operation.as_strategy(generation_mode=mode), st.data())
    def ask(case: Any, data: st.DataObject) -> None:
        for where in (case.path_parameters, case.query):
            for name in sorted(set(where or ()) & set(fuzzed.known)):
                if data.draw(st.booleans()):
                    where[name] = data.draw(st.sampled_from(fuzzed.known[name]))
        for client in [*islice(turns, min(2, able)), *refused]:
            answer = fuzzed.runner.run(_sent(client, case.as_transport_kwargs(base_url="http://holdfast")))
            problem = _problem(answer)
            if problem:
                wrong.append(f"{operation.method.upper()} {answer.request.url}: {problem}")
        refused.clear()

    with suppress(Unsatisfiable):  # an operation that takes nothing cannot be given anything wrong
        ask()
    return wrong


def _status(fuzzed: Fuzzed, client: httpx.AsyncClient, operation: Any) -> int:
    path = operation.path.replace("{", "").replace("}", "")
    return int(fuzzed.runner.run(client.request(operation.method, path)).status_code)


async def _sent(client: httpx.AsyncClient, words: dict[str, Any]) -> httpx.Response:
    """The request as it would go over the wire, with the caller's own token."""
    words["headers"].pop("Authorization", None)
    made = requests.Request(**words).prepare()
    assume(len(str(made.url)) <= URL_LENGTH_MAX)
    headers = {**made.headers, "Authorization": client.headers.get("Authorization", "")}
    body = made.body.encode() if isinstance(made.body, str) else made.body
    return await client.request(str(made.method), str(made.url), content=body, headers=headers)


def _problem(answer: httpx.Response) -> str | None:
    if answer.status_code >= 500:
        return f"{answer.status_code}: {answer.text[:300]}"
    if answer.status_code < 400:
        return None
    kind = answer.headers.get("content-type", "")
    told = answer.json() if kind == MEDIA_TYPE else {}
    good = told.get("status") == answer.status_code and str(told.get("code", "")).isupper() and told.get("detail")
    return None if good else f"{answer.status_code} is no problem: {kind} {answer.text[:200]}"


def test_a_server_error_and_a_bare_error_are_seen() -> None:
    request = httpx.Request("GET", "http://holdfast/")
    assert _problem(httpx.Response(500, request=request, text="oh")) is not None
    assert _problem(httpx.Response(404, request=request, json={"detail": "Not Found"})) is not None
    assert _problem(httpx.Response(200, request=request)) is None
