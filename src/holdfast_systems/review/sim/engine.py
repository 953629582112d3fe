"""What stands in for sockets in the simulated review system: a source, a model, and mail providers of every class.

The engine is the production one, with the production clients of the model and of the mail provider; only the ends of
their connections lead into the simulator's stubs, which fail, stay silent and remember as real ones do.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import httpx

from holdfast.providers.openai import OpenAIClient
from holdfast.settings import read
from holdfast_proof import wire
from holdfast_proof.provider_stub import Dedup
from holdfast_proof.world import CANARY, here
from holdfast_systems.review.changelist import Changelist, FetchedDiff
from holdfast_systems.review.changes import Source, UrlSource
from holdfast_systems.review.engine import Engine, critic_provider, mail_provider, source_provider
from holdfast_systems.review.findings import Review
from holdfast_systems.review.http_mail import HttpMailNotifier
from holdfast_systems.review.line_checks import check_lines
from holdfast_systems.review.settings import ReviewSettings

if TYPE_CHECKING:
    from holdfast_systems.review.sim.world import ReviewWorld

# `both`: sending again under the token is safe, and the provider can be asked.
MAIL: dict[str, Dedup] = {
    "token": Dedup.TOKEN,
    "both": Dedup.TOKEN,
    "lookup": Dedup.LOOKUP,
    "neither": Dedup.NEITHER,
}
STUBS = {"source": Dedup.NEITHER, "llm": Dedup.NEITHER, **{f"mail.{name}": dedup for name, dedup in MAIL.items()}}
ENV = {
    "HOLDFAST_DATA_DIR": "/nonexistent",
    "OPENAI_BASE_URL": "http://llm.sim/v1",
    "LLM_TIMEOUT_SEC": "15",
    "REVIEW_TOKENS_MAX": "500",
    "REVIEW_FETCH_SEC": "1.5",
    "REVIEW_ATTEMPTS": "3",
    "REVIEW_MAIL_SEC": "7",
    "REVIEW_MAIL_LATE_SEC": "25",
    "REVIEW_MAIL_TOKEN_SEC": "600",
    "REVIEW_BREAKER_WINDOW": "6",
    "REVIEW_BREAKER_COOLDOWN_SEC": "15",
}
BAD_MAILBOX = "bad@mail.test"
NO_ADDRESS = "nobody at all"
_SUBJECT = re.compile(r"\[review (\S+) v(\d+)\]")
# What the linters found stands behind the change, and is no part of it.
_PROMPT = re.compile(r"TITLE ([^\n]*)\n\n(.*?)(?:\n\nLINTERS\n.*)?", re.DOTALL)
_FILE_LINES = 22


def world() -> ReviewWorld:
    found: Any = here()
    return found  # type: ignore[no-any-return]


def engine_of(mail: str) -> Engine:
    """The engine with one class of mail provider."""
    settings = read(ReviewSettings, ENV)
    client = OpenAIClient("http://llm.sim/v1", "key", http=wire.client(_answer_prompt), now_ms=_now_ms)
    notifier = HttpMailNotifier(
        wire.client(_answer_mail),
        f"http://mail.{mail}",
        "key",
        timeout_s=settings.mail_s,
        lookup_path="/sent" if mail in ("lookup", "both") else None,
        retention_s=settings.mail_retention_s,
        name=f"mail.{mail}",
        effects="token" if mail == "both" else mail,  # type: ignore[arg-type]
        now_ms=_now_ms,
    )
    return Engine(
        settings,
        source=source_provider(settings),
        critic=critic_provider(settings),
        mail=mail_provider(settings, notifier),
        notifier=notifier,
        client=client,
        fetch=fetch,
        criticise=lint_lines,
    )


async def lint_lines(
    changelist: Changelist, contents: Mapping[str, str], /, *, timeout_s: float, sizes: Mapping[str, int]
) -> Review:
    """The checks that run no program: what the model is told of the change beside the change itself."""
    found = [finding for file in changelist.files for finding in check_lines(file)]
    return Review("Linted.", tuple(found), "lines")


def _now_ms() -> int:
    return here().loop.current.wall_ms


# The source


def url_of(changelist: str, version: int, files: int, broken: int) -> str:
    """Where a version's diff is: `files` files; unreadable the first `broken` times."""
    return f"https://source.test/{changelist}/{version}/{files}/{broken}"


async def fetch(settings: ReviewSettings, source: Source, /, *, trusted: bool) -> FetchedDiff:
    assert isinstance(source, UrlSource)
    changelist, version, files, broken = source.url.rsplit("/", 4)[1:]
    await here().providers["source"].send(source.url, None)
    fetched = world().fetched
    fetched[source.url] = fetched.get(source.url, 0) + 1
    diff = "no diff at all\n" if fetched[source.url] <= int(broken) else diff_of(changelist, int(files))
    return FetchedDiff(diff, f"{changelist} v{version}", "ann")


def diff_of(changelist: str, files: int) -> str:
    """A diff of some files, of which every second or third fits one prompt; one holds a secret."""
    texts = []
    for number in range(files):
        path = f"{changelist}/part_{number}.py"
        added = [f"+value_{line} = compute({line}, with_some_words_of_a_usual_length)" for line in range(_FILE_LINES)]
        if number == 0:
            added[3] = f'+api_key = "{CANARY}"'
        head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -0,0 +1,{len(added)} @@\n"
        texts.append(head + "\n".join(added) + "\n")
    return "".join(texts)


# The model


async def _answer_prompt(request: httpx.Request) -> httpx.Response:
    """Answer a prompt; what it is about is read from the prompt itself, as the model would."""
    body = json.loads(request.content)
    prompt = body["messages"][1]["content"]
    found = _PROMPT.fullmatch(prompt)
    assert found is not None, "every simulated review has a title"
    title, chunk = found.groups()
    digest = hashlib.sha256("\0".join((body["model"], title, chunk)).encode()).hexdigest()
    provider_id = await here().providers["llm"].send(f"{title}#{digest}", prompt)
    content = world().critic_says(chunk.split("\n", 1)[0].removeprefix("FILE "))
    answer = {
        "id": provider_id,
        "choices": [{"message": content, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 400, "completion_tokens": 50},
    }
    return httpx.Response(200, json=answer)


def good_answer(path: str) -> dict[str, Any]:
    finding = {"path": path, "line": 2, "severity": "warning", "rule": "odd-call", "message": "This looks odd."}
    return {"content": json.dumps({"summary": "Looked at it.", "findings": [finding]})}


# The mail provider


async def _answer_mail(request: httpx.Request) -> httpx.Response:
    name = request.url.host
    stub = here().providers[name]
    if request.method == "GET":
        known = await stub.lookup(request.url.params["token"])
        return httpx.Response(200, json={"data": [{"id": known}]}) if known else httpx.Response(404, json={})
    body = json.loads(request.content)
    token = request.headers["idempotency-key"]
    about = _SUBJECT.match(body["subject"])
    assert about is not None, "every mail says what it is about"
    world().posted.setdefault(token, set()).add(hashlib.sha256(request.content).hexdigest())
    if body["to"] == [BAD_MAILBOX]:
        await asyncio.sleep(0.05)
        return httpx.Response(422, json={"name": "validation_error", "message": "Invalid `to` field."})
    mail = (about[1], int(about[2]), body["to"][0], CANARY in request.content.decode())
    return httpx.Response(200, json={"id": await stub.send(token, mail)})
