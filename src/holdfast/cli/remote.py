"""The desk of a server elsewhere: `holdfast --url https://host --token ...` asks its API what it would else do itself.

Each verb of the desk has a route; its arguments go into the path, the query or the body by their names. Who acts is
known from the token, so that `--actor` is not sent. A redirect is not followed: the token belongs to the address that
was given.
"""

from __future__ import annotations

import http.client
import inspect
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from pydantic import BaseModel

from holdfast.cli.server import RemoteServer
from holdfast.errors import HoldfastError, InvalidInput, NotAllowed, NotFound
from holdfast.operator import (
    deliveries,
    fleet,
    incidents,
    job_bulk,
    jobs,
    letters,
    overview,
    pauses,
    postmortem,
    providers,
    replays,
    schedules,
    story,
)
from holdfast.operator.page import PAGE_MAX, ListPage

BASE = "/api/ops"
TIMEOUT_S = 30.0


class Route(NamedTuple):
    """`path`: with the arguments that stand in it, and words that are made of one (`WORDS`); `fixed` is sent always."""

    method: str
    path: str
    renamed: Mapping[str, str] = {}
    fixed: Mapping[str, Any] = {}


WORDS: dict[str, Callable[[Any], str]] = {
    "open": lambda is_open: "open" if is_open else "close",
    "paused": lambda is_paused: "pause" if is_paused else "resume",
    "drain": lambda drains: "drain" if drains else "undrain",
    "group": lambda group: group.fingerprint,
    "form": lambda form: type(form).__name__.removeprefix("Bulk").lower(),
}


ROUTES: dict[Callable[..., Any], Route] = {
    overview.show_overview: Route("GET", "/overview"),
    jobs.list_jobs: Route("GET", "/jobs"),
    jobs.query_jobs: Route("GET", "/jobs", {"text": "q"}),
    story.show_job: Route("GET", "/jobs/{job_id}"),
    jobs.cancel_job: Route("POST", "/jobs/{job_id}/cancel"),
    jobs.set_priority: Route("POST", "/jobs/{job_id}/priority"),
    jobs.run_job_now: Route("POST", "/jobs/{job_id}/run-now"),
    jobs.delete_job: Route("POST", "/jobs/{job_id}/delete"),
    job_bulk.act_on_jobs: Route("POST", "/jobs/bulk", {"text": "q"}),
    pauses.list_pauses: Route("GET", "/pauses"),
    pauses.set_pause: Route("POST", "/pauses/{sort}/{name}/{paused}"),
    schedules.set_paused: Route("POST", "/schedules/{name}/{paused}"),
    schedules.run_schedule_now: Route("POST", "/schedules/{name}/run"),
    schedules.list_runs: Route("GET", "/schedules/{name}/runs"),
    providers.list_breakers: Route("GET", "/breakers"),
    providers.list_gate_changes: Route("GET", "/breakers/{name}/history"),
    providers.force_breaker: Route("POST", "/breakers/{name}/{open}"),
    deliveries.list_messages: Route("GET", "/outbox"),
    deliveries.requeue_message: Route("POST", "/outbox/{message_id}/requeue"),
    deliveries.list_effects: Route("GET", "/effects"),
    deliveries.answer_effect: Route("POST", "/effects/answer"),
    fleet.list_actions: Route("GET", "/audit"),
    fleet.list_schedules: Route("GET", "/schedules"),
    fleet.list_workers: Route("GET", "/workers"),
    fleet.drain_worker: Route("POST", "/workers/{name}/{drain}"),
    fleet.sum_costs: Route("GET", "/costs"),
    letters.list_letters: Route("GET", "/dead-letters"),
    letters.list_groups: Route("GET", "/dead-letters/groups"),
    letters.show_letter: Route("GET", "/dead-letters/{case_id}"),
    letters.triage_letter: Route("POST", "/dead-letters/{case_id}/triage"),
    letters.remediate_letter: Route("POST", "/dead-letters/{case_id}/remediate"),
    letters.replay_letter: Route("POST", "/dead-letters/{case_id}/replay"),
    letters.resolve_letter: Route("POST", "/dead-letters/{case_id}/resolve"),
    letters.step_many: Route("POST", "/dead-letters/bulk/{form}"),
    replays.preview_group: Route("POST", "/dead-letters/groups/{group}/mend", {"values": "set"}, {"dry_run": True}),
    replays.begin_replay: Route("POST", "/dead-letters/groups/{group}/mend", {"values": "set"}),
    replays.list_replays: Route("GET", "/replays"),
    replays.show_replay: Route("GET", "/replays/{replay_id}"),
    replays.steer_replay: Route("POST", "/replays/{replay_id}/{verb}"),
    incidents.list_incidents: Route("GET", "/incidents"),
    incidents.show_incident: Route("GET", "/incidents/{id}"),
    incidents.acknowledge_incident: Route("POST", "/incidents/{id}/acknowledge"),
    incidents.assign_incident: Route("POST", "/incidents/{id}/assign"),
    incidents.comment_incident: Route("POST", "/incidents/{id}/comment"),
    incidents.close_incident: Route("POST", "/incidents/{id}/close"),
    postmortem.write_postmortem: Route("GET", "/incidents/{id}/post-mortem"),
}
UNSENT = ("actor",)
"""What the server knows by itself."""


def ask_server(
    server: RemoteServer,
    systems: list[str] | None,
    apps: list[str] | None,
    verb: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """What the server answers to a verb of the desk."""
    route = ROUTES.get(verb)
    if route is None:
        raise NotAllowed("This command works on the databases themselves; run it there, without --url.")
    is_chosen_here = apps and apps != os.environ.get("HOLDFAST_APP", "").split()
    if is_chosen_here or len(systems or ()) > 1:
        raise InvalidInput("With --url give no --app, and at most one --system.")
    given = inspect.signature(verb).bind(None, *args, **kwargs).arguments
    path = route.path.format(**{name: _word(name, value) for name, value in given.items()})
    sent = {route.renamed.get(name, name): value for name, value in _spread(given, route) if value is not None}
    values = {**sent, **route.fixed}
    query, body = (values, None) if route.method == "GET" else ({}, values)
    return _send(server, route.method, path, {**query, "system": systems[0]} if systems else query, body)


def _word(name: str, value: object) -> str:
    return quote(WORDS[name](value) if name in WORDS else str(value), safe="")


def _spread(given: Mapping[str, Any], route: Route) -> Iterator[tuple[str, Any]]:
    """The arguments as single values: a page is its limit and its cursor, a filter its fields, a form what it holds."""
    for name, value in given.items():
        match value:
            case ListPage():
                yield from (("limit", min(value.limit, PAGE_MAX)), ("next", value.cursor))
            case BaseModel():
                yield from value.model_dump(mode="json", exclude_none=True).items()
            case dict() if name not in route.renamed:
                yield from value.items()
            case _ if name not in UNSENT and name != "desk" and f"{{{name}}}" not in route.path:
                yield name, value


def _send(server: RemoteServer, method: str, path: str, query: Mapping[str, Any], body: Any) -> Any:
    words = urlencode({name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items()})
    request = urllib.request.Request(
        f"{server.url}{BASE}{path}" + (f"?{words}" if words else ""),
        method=method,
        headers={"Authorization": f"Bearer {server.token}", "Accept": "application/json"},
    )
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT_S) as answer:
            text = answer.read().decode()
            return json.loads(text) if "json" in answer.headers.get("Content-Type", "") else text
    except urllib.error.HTTPError as error:
        raise _refusal(server, error) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = " ".join(str(getattr(error, "reason", error)).split())
        raise HoldfastError(f"{server.url} does not answer as a Holdfast server does: {reason}.") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _refusal(server: RemoteServer, error: urllib.error.HTTPError) -> HoldfastError:
    """What the server said against it, in its own words."""
    if 300 <= error.code < 400:
        return HoldfastError(f"{server.url} sends elsewhere, to {error.headers.get('Location')}; give that address.")
    try:
        problem = json.loads(error.read().decode())
        sentence = str(problem.get("detail") or problem.get("title") or "")
    except (ValueError, AttributeError):
        sentence = ""
    kind = NotFound if error.code == 404 else NotAllowed
    return kind(sentence or f"{server.url} answered {error.code}.")
