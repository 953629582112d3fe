"""Answers held against the OpenAPI document: what it does not describe, no field too many, fails the test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache, partial
from inspect import unwrap
from typing import Any

import jsonschema_rs
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.types import Message, Receive, Scope, Send

JSON = "application/json"
Operation = tuple[re.Pattern[str], str, str, Any]


class Described:
    """An application whose JSON answers are compared with its own document on their way out."""

    def __init__(self, web: FastAPI) -> None:
        self.web = web
        self.problems: list[str] = []
        self.seen: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()
        head: dict[str, Any] = {}

        async def look(message: Message) -> None:
            if message["type"] == "http.response.start":
                head.update(message)
            elif message["type"] == "http.response.body" and self._is_json(head):
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    self._compare(scope, head["status"], bytes(body))
            await send(message)

        await self.web(scope, receive, look)

    def _is_json(self, head: dict[str, Any]) -> bool:
        headers = {name.lower(): value for name, value in head.get("headers", ())}
        content: bytes = headers.get(b"content-type", b"")
        return 200 <= head.get("status", 0) < 300 and content.startswith(JSON.encode())

    def _compare(self, scope: Scope, status: int, body: bytes) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        for pattern, method, name, answers in operations_of(self.web):
            if method == scope["method"] and pattern.fullmatch(path):
                self.seen.add(name)
                if str(status) not in answers:
                    self.problems.append(f"{name}: {status} is not described")
                    return
                found = [_say(error) for error in answers[str(status)]().iter_errors(json.loads(body))]
                self.problems += [f"{name}: {each}" for each in found[:3]]
                return


KNOWN: dict[tuple[object, ...], list[Operation]] = {}
"""By the routes of an application: the next one with the same code behind the same addresses answers alike, and to
write a document takes longer than most tests do."""


def operations_of(web: FastAPI) -> list[Operation]:
    """What is described, the plainer of two addresses first."""
    contexts = [each for each in iter_route_contexts(web.routes) if isinstance(each.original_route, APIRoute)]
    routes = tuple((each.path, frozenset(each.methods or ()), unwrap(each.endpoint).__code__) for each in contexts)
    if routes not in KNOWN:
        KNOWN[routes] = sorted(routes_of(web.openapi()), key=lambda operation: operation[2].count("{"))
    return KNOWN[routes]


def routes_of(document: dict[str, Any]) -> Iterator[Operation]:
    """Every operation: the addresses that it takes, its method, its name, and what its answers must be by status."""
    components = close(document.get("components", {}))
    for path, methods in document["paths"].items():
        pattern = re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)))
        for method, operation in methods.items():
            answers = {
                status: cache(partial(make_validator, answer["content"][JSON]["schema"], components))
                for status, answer in operation["responses"].items()
                if status.startswith("2") and JSON in answer.get("content", {})
            }
            yield pattern, method.upper(), f"{method.upper()} {path}", answers


def make_validator(schema: dict[str, Any], components: dict[str, Any]) -> Any:
    return jsonschema_rs.validator_for({**close(schema), "components": components})


def close(schema: Any) -> Any:
    """The schema with every object that has named fields closed to others: a client may meet more, a test may not."""
    if isinstance(schema, list):
        return [close(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: close(value) for name, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


def _say(error: Any) -> str:
    return f"{'/'.join(map(str, error.instance_path))}: {error.message[:300]}"
