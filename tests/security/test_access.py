"""Every route times every caller, in one table. A route that is not in the table fails: nobody can forget one.

everybody   needs no token, and one that is bad changes nothing
anyone      any valid token
a role      that role, or one of several; every other role is 403
owner       beside its role, only the one whose it is: for everybody else it is 403 or not there
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from tests.roles import ROLES
from tests.security.deployment import SECRET, Deployment, deployed

from holdfast.http.guard import STREAM_ENDS
from holdfast.http.pages import COOKIE
from holdfast.http.problem import MEDIA_TYPE

UNSET = ("GET /login/oidc", "GET /login/callback")
"""Not there without HOLDFAST_OIDC_ISSUER."""
TABLE = """
everybody: GET /; GET /login; GET /instructor; GET /console; GET /static/{name}; GET /docs; GET /docs.css;
everybody: GET /openapi.json; GET /login/oidc; GET /login/callback;
everybody: GET /healthz; GET /readyz; GET /metrics; GET /asyncapi.yaml; GET /convert; GET /static/{system}/{name};
everybody: POST /api/callbacks/{queue};
anyone: POST /api/tickets; GET /api/session; POST /api/session; DELETE /api/session;
anyone: POST /api/jobs; GET /api/jobs; GET /api/jobs/events;
anyone owner: GET /api/jobs/{job_id}; GET /api/jobs/{job_id}/events; GET /api/jobs/{job_id}/result;
anyone owner: POST /api/jobs/{job_id}/retry; POST /api/jobs/{job_id}/cancel;
learner: POST /api/submissions; GET /api/submissions; POST /api/recordings;
everybody: GET /api/recordings/{name};
learner owner: GET /api/submissions/{submission_id}; GET /api/submissions/{submission_id}/events;
learner owner: POST /api/submissions/{submission_id}/resubmit;
learner: POST /submissions; GET /submissions;
learner owner: GET /submissions/{submission_id}; GET /submissions/{submission_id}/events;
learner owner: POST /submissions/{submission_id}/resubmit;
instructor: GET /api/instructor/queue; POST /api/submissions/{submission_id}/review/claim;
instructor: GET /api/instructor/history; GET /api/instructor/events;
instructor: GET /api/instructor/submissions/{submission_id}; GET /api/instructor/submissions/{submission_id}/audio;
instructor: POST /api/submissions/{submission_id}/review;
instructor operator: POST /api/submissions/{submission_id}/review/release;
service: POST /api/changelists/{changelist_id}/reviews; GET /api/changelists/{changelist_id}/reviews;
service: GET /api/changelists/{changelist_id}/reviews/{review_version};
service: GET /api/changelists/{changelist_id}/reviews/{review_version}/mail;
operator: GET /api/ops/overview; GET /api/ops/charts; GET /api/ops/changes; GET /api/ops/audit;
operator: GET /api/ops/jobs; GET /api/ops/jobs/{job_id}; POST /api/ops/jobs/{job_id}/cancel;
operator: GET /api/ops/jobs/counts; POST /api/ops/jobs/bulk; POST /api/ops/jobs/{job_id}/answer;
operator: GET /api/ops/incidents; GET /api/ops/incidents/{incident_id};
operator: GET /api/ops/incidents/{incident_id}/post-mortem;
operator: POST /api/ops/incidents/{incident_id}/acknowledge; POST /api/ops/incidents/{incident_id}/assign;
operator: POST /api/ops/incidents/{incident_id}/comment; POST /api/ops/incidents/{incident_id}/close;
operator: GET /api/ops/breakers; GET /api/ops/breakers/{name}/history;
operator: POST /api/ops/breakers/{name}/open; POST /api/ops/breakers/{name}/close;
operator: GET /api/ops/outbox; POST /api/ops/outbox/{message_id}/requeue;
operator: GET /api/ops/effects; POST /api/ops/effects/answer;
operator: GET /api/ops/costs; GET /api/ops/workers; GET /api/ops/schedules;
operator: GET /api/ops/pauses; POST /api/ops/pauses/{sort}/{name}/pause; POST /api/ops/pauses/{sort}/{name}/resume;
operator: POST /api/ops/jobs/{job_id}/priority; POST /api/ops/jobs/{job_id}/run-now;
operator: POST /api/ops/jobs/{job_id}/delete; POST /api/ops/workers/{name}/drain;
operator: POST /api/ops/workers/{name}/undrain; GET /api/ops/schedules/{name}/runs;
operator: POST /api/ops/schedules/{name}/run; POST /api/ops/schedules/{name}/pause;
operator: POST /api/ops/schedules/{name}/resume;
operator: GET /api/ops/submissions; GET /api/ops/submissions/{submission_id};
operator: POST /api/ops/submissions/{submission_id}/resubmit; GET /api/ops/refused-callbacks;
operator: GET /api/ops/dlq; GET /api/ops/dlq/{letter_id};
operator: POST /api/ops/dlq/{letter_id}/resend; POST /api/ops/dlq/{letter_id}/archive;
operator: GET /api/ops/service/overview; GET /api/ops/service/breakers; GET /api/ops/service/jobs;
operator: GET /api/ops/service/jobs/{job_id}; GET /api/ops/service/dead-letters;
operator: GET /api/ops/service/dead-letters/{case_id}; POST /api/ops/service/dead-letters/{case_id}/triage;
operator: POST /api/ops/service/dead-letters/{case_id}/remediate; POST /api/ops/service/dead-letters/{case_id}/correct;
operator: POST /api/ops/service/dead-letters/{case_id}/replay; POST /api/ops/service/dead-letters/{case_id}/resolve;
operator: POST /api/ops/service/breakers/{name}/{verb};
operator: GET /api/ops/dead-letters; GET /api/ops/dead-letters/groups; GET /api/ops/dead-letters/{case_id};
operator: POST /api/ops/dead-letters/{case_id}/triage; POST /api/ops/dead-letters/{case_id}/remediate;
operator: POST /api/ops/dead-letters/{case_id}/correct; POST /api/ops/dead-letters/{case_id}/mend;
operator: POST /api/ops/dead-letters/{case_id}/replay; POST /api/ops/dead-letters/{case_id}/resolve;
operator: POST /api/ops/dead-letters/bulk/triage; POST /api/ops/dead-letters/bulk/remediate;
operator: POST /api/ops/dead-letters/bulk/replay; POST /api/ops/dead-letters/bulk/resolve;
operator: POST /api/ops/dead-letters/groups/{fingerprint}/mend; GET /api/ops/replays; GET /api/ops/replays/{replay_id};
operator: POST /api/ops/replays/{replay_id}/pause; POST /api/ops/replays/{replay_id}/resume;
operator: POST /api/ops/replays/{replay_id}/stop;
"""


@dataclass(frozen=True)
class Rule:
    """Who may make a request: nobody need sign in, or these roles; and perhaps only the owner."""

    public: bool
    roles: frozenset[str]
    owner: bool


def rules() -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for line in TABLE.strip().splitlines():
        who, _, requests = line.partition(": ")
        words = set(who.split())
        roles = frozenset(ROLES) if words & {"anyone", "everybody"} else frozenset(words - {"owner"})
        for request in filter(None, map(str.strip, requests.split(";"))):
            looks = {"viewer"} if "operator" in roles and request.startswith("GET ") else set()
            found[request] = Rule("everybody" in words, roles | looks, "owner" in words)
    return found


RULES = rules()
SIGNED = {"POST /api/callbacks/{queue}"}
"""Whoever has an address that was signed may use it, and nobody else, whatever token they have."""
STREAMS = {request for request in RULES if request.endswith("/events")} | {"GET /api/ops/changes"}


def by_token() -> dict[str, Any]:
    """The rules of the routes that a token opens."""
    return {request: rule for request, rule in RULES.items() if request not in SIGNED}


def routes(web: FastAPI) -> set[str]:
    """Everything that the application answers to, described in the OpenAPI or not."""
    found = iter_route_contexts(web.routes)
    return {f"{method} {one.path_format}" for one in found for method in set(one.methods or ()) - {"HEAD"}}


@dataclass(frozen=True)
class Access:
    """A deployment with one thing of everything, that `ann` owns."""

    place: Deployment
    ids: Mapping[str, str]

    async def status(self, client: httpx.AsyncClient, request: str) -> int:
        verb, _, path = request.partition(" ")
        target = re.sub(r"\{(\w+)\}", lambda found: self.ids[found[1]], path)
        answer = await client.request(verb, target)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == MEDIA_TYPE, request
        if answer.status_code == 401:
            assert answer.headers["www-authenticate"] == "Bearer", request
        return answer.status_code


@pytest.fixture
async def access(tmp_path: Path) -> AsyncIterator[Access]:
    async with deployed(tmp_path) as place:
        place.web.state.stopping.set()  # event streams end at once
        nobody = "0190a000-0000-7000-8000-000000000000"
        ids = {
            "job_id": (await place.conversion("ann"))["id"],
            "submission_id": (await place.submission("ann"))["id"],
            "changelist_id": (await place.review("cl-1"))["changelist_id"],
            "review_version": "1",
            "case_id": nobody,
            "incident_id": nobody,
            "replay_id": nobody,
            "fingerprint": "0123456789ab",
            "letter_id": "nothing",
            "message_id": nobody,
            "name": "nothing",
            "noun": "jobs",
            "sort": "kind",
            "step": "triage",
            "system": "nothing",
            "verb": "open",
        }
        yield Access(place, ids)


def test_the_table_names_every_route_and_no_other(access: Access) -> None:
    assert routes(access.place.web) == set(RULES)


def _signed(key: Any, algorithm: str, **more: Any) -> str:
    claims = {"sub": "ann", "roles": list(ROLES), "exp": int(time.time()) + 600} | more
    return jwt.encode(claims, key, algorithm=algorithm)


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _unsigned(algorithm: str) -> str:
    claims = {"sub": "ann", "roles": list(ROLES), "exp": int(time.time()) + 600}
    return f"{_part({'alg': algorithm, 'typ': 'JWT'})}.{_part(claims)}."


BAD_TOKENS: dict[str, Callable[[], str]] = {
    "expired": lambda: _signed(SECRET, "HS256", exp=int(time.time()) - 5),
    "unsigned": lambda: _unsigned("none"),
    "unsigned, spelled otherwise": lambda: _unsigned("nOnE"),
    "unsigned, said to be signed": lambda: _unsigned("HS256"),
    "another algorithm": lambda: _signed(SECRET, "HS512"),
    "another kind of key": lambda: _signed(rsa.generate_private_key(public_exponent=65537, key_size=2048), "RS256"),
    "another key": lambda: _signed("x" * 64, "HS256"),
    "not valid yet": lambda: _signed(SECRET, "HS256", nbf=int(time.time()) + 500),
    "rubbish": lambda: "rubbish",
}


@pytest.mark.slow
@pytest.mark.spec("K8")
async def test_without_a_good_token_only_what_is_public_answers(access: Access) -> None:
    tokens = {"none": None} | {name: made() for name, made in BAD_TOKENS.items()}
    wrong = []
    for name, token in tokens.items():
        client = access.place.bearing(token)
        for request, rule in by_token().items():
            status = await access.status(client, request)
            unset = request in UNSET or "{" in request
            fits = status < 400 or (status == 404 and unset) if rule.public else status == 401
            wrong += [] if fits else [f"{request} with {name} token: {status}"]
    assert wrong == []


@pytest.mark.slow
@pytest.mark.spec("K8")
async def test_every_route_answers_to_its_roles_and_to_no_other(access: Access) -> None:
    wrong = []
    for role in ROLES:
        client = access.place.client("ann", role)
        for request, rule in by_token().items():
            status = await access.status(client, request)
            fits = status not in (401, 403) and status < 500 if role in rule.roles else status == 403
            wrong += [] if fits else [f"{request} as {role}: {status}"]
    client = access.place.client("ann")
    for request, rule in by_token().items():
        status = await access.status(client, request)
        fits = status == 403 if rule.roles != frozenset(ROLES) else status not in (401, 403)
        wrong += [] if fits else [f"{request} without any role: {status}"]
    assert wrong == []


@pytest.mark.slow
@pytest.mark.spec("K24")
async def test_an_address_for_a_callback_needs_its_own_signature(access: Access) -> None:
    queue = access.place.systems[0].kernel.registry.queues[0]
    for client in (access.place.client(), access.place.client("olga", "operator")):
        for signature in ("", "0" * 64):
            url = f"/api/callbacks/{queue}?key=k&expires=9999999999999&signature={signature}"
            answer = await client.post(url, json=1)
            assert answer.status_code == 403, answer.text


async def test_what_is_another_ones_is_refused_or_not_there(access: Access) -> None:
    wrong = []
    for request, rule in RULES.items():
        if rule.owner:
            own = await access.status(access.place.client("ann", *rule.roles), request)
            other = await access.status(access.place.client("eve", *rule.roles, "operator"), request)
            fits = own not in (401, 403, 404) and other in (403, 404)
            wrong += [] if fits else [f"{request}: {own} for its owner, {other} for another"]
    assert wrong == []


async def test_the_lists_of_one_show_nothing_of_another(access: Access) -> None:
    eve = access.place.client("eve", "learner")
    assert (await eve.get("/api/jobs")).json()["jobs"] == []
    assert (await eve.get("/api/submissions")).json()["items"] == []
    ann = access.place.client("ann", "learner")
    assert (
        len((await ann.get("/api/jobs")).json()["jobs"])
        == len((await ann.get("/api/submissions")).json()["items"])
        == 1
    )


@pytest.mark.slow
async def test_the_console_asks_for_an_operators_cookie_and_nothing_else_takes_it(access: Access) -> None:
    shown = {}
    for role in ROLES:
        client = access.place.client("olga", role)
        assert (await client.post("/api/session")).status_code == 204
        del client.headers["Authorization"]
        shown[role] = (await client.get("/console")).status_code
        cookie = next(one for one in client.cookies.jar if one.name == COOKIE)
        assert cookie.path == "/console"
        client.headers["Cookie"] = f"{COOKIE}={cookie.value}"
        for request, rule in RULES.items():
            assert rule.public or await access.status(client, request) == 401, request
    assert shown == {"learner": 403, "instructor": 403, "operator": 200, "service": 403, "viewer": 200}
    for name, made in BAD_TOKENS.items():
        client = access.place.client()
        client.headers["Cookie"] = f"{COOKIE}={made()}"
        assert (await client.get("/console")).status_code == 303, name


async def ticket(of: httpx.AsyncClient) -> str:
    return str((await of.post("/api/tickets")).json()["ticket"])


@pytest.mark.slow
@pytest.mark.parametrize("request_", sorted(STREAMS))
async def test_a_ticket_opens_one_stream_once_for_its_holder_alone(access: Access, request_: str) -> None:
    roles, anonymous = RULES[request_].roles, access.place.client()
    target = request_.removeprefix("GET ").format(**access.ids)
    mine, foreign = [await ticket(access.place.client(sub, *roles)) for sub in ("ann", "eve")]
    assert [(await anonymous.get(f"{target}?ticket={mine}")).status_code for _ in range(2)] == [200, 401]
    assert ((await anonymous.get(f"{target}?ticket={foreign}")).status_code == 200) is not RULES[request_].owner
    powerless = await ticket(access.place.client("ann"))
    expected = 200 if roles == frozenset(ROLES) else 403
    assert (await anonymous.get(f"{target}?ticket={powerless}")).status_code == expected


async def test_a_ticket_is_good_for_streams_alone(access: Access) -> None:
    assert all(request.endswith(STREAM_ENDS) for request in STREAMS), "an address with no requests left may open them"
    fresh, anonymous = await ticket(access.place.client("ann", *ROLES)), access.place.client()
    for request, rule in RULES.items():
        if not rule.public and request not in STREAMS:
            assert await access.status(anonymous, f"{request}?ticket={fresh}") == 401, request
    assert (await anonymous.get(f"/api/jobs/events?ticket={fresh}")).status_code == 200
