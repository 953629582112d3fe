"""The API's reference at /docs, made from the OpenAPI description: no network, and a script only to send."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from holdfast.http.pages import frame, links

router = APIRouter(include_in_schema=False)

STYLE = """main { max-width: 60rem; }
main h2 { margin-top: 2rem; }
.method { display: inline-block; min-width: 4.5rem; font: 600 .88em ui-monospace, monospace; }
article { border-top: 1px solid var(--line); padding: .6rem 0; }
article p { margin: .2rem 0; }
"""


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    return HTMLResponse(rendered(request.app.openapi(), links(request.app.state.systems, "docs")))


@router.get("/docs.css")
async def style() -> Response:
    return Response(STYLE, media_type="text/css")


def rendered(description: dict[str, Any], linked: str) -> str:
    """The description as a page, below the links to the others. Everything in it is escaped."""
    title = escape(f"{description['info']['title']} {description['info']['version']}")
    types = description.get("components", {}).get("schemas", {})
    groups: dict[str, list[str]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            group = (operation.get("tags") or ["routes"])[0]
            groups.setdefault(group, []).append(_operation(method, path, operation, types))
    body = "".join(
        f'<h2 id="{escape(name)}">{escape(name)}</h2>{"".join(parts)}' for name, parts in sorted(groups.items())
    )
    jumps = " ".join(
        f'<a href="docs#{escape(name)}">{escape(name)}</a> ({len(groups[name])})' for name in sorted(groups)
    )
    main = (
        f'<main id="main" tabindex="-1"><h1>{title}</h1>'
        '<p>The whole description, for tools: <a href="openapi.json">/openapi.json</a>. '
        "Each operation can be sent from here, with the token of this tab.</p>"
        f'<nav aria-label="Groups of operations"><p>{jumps}</p></nav>{body}</main>'
    )
    head = ['<link rel="stylesheet" href="docs.css">', '<script type="module" src="static/docs.js"></script>']
    return frame("API", main, linked, head)


def _operation(method: str, path: str, operation: dict[str, Any], types: dict[str, Any]) -> str:
    summary = operation.get("description") or operation.get("summary") or ""
    names = ", ".join(one["name"] for one in operation.get("parameters", ()))
    fields = _content(operation.get("requestBody", {}))
    answers = {status: answer for status, answer in operation["responses"].items() if status.startswith("2")}
    return (
        f'<article><p><span class="method">{escape(method.upper())}</span> <code>{escape(path)}</code></p>'
        f"<p>{_code(escape(summary))}</p>"
        + (f"<p>Parameters: <code>{escape(names)}</code></p>" if names else "")
        + (f"<p>Body: <code>{escape(fields)}</code></p>" if fields else "")
        + "".join(f"<p>Answer: <code>{status} {escape(_content(each))}</code></p>" for status, each in answers.items())
        + _fields_of(answers, types)
        + f'<details data-operation="{escape(f"{method} {path}")}"><summary>Send</summary></details>'
        + "</article>"
    )


def _code(text: str) -> str:
    """What stands between back-ticks, as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def _content(part: dict[str, Any]) -> str:
    """The media types of a body or an answer, each with the name of its type if it has one."""
    kinds = [
        f"{kind} {' or '.join(_references(each.get('schema', {})))}" for kind, each in part.get("content", {}).items()
    ]
    return ", ".join(kind.strip() for kind in kinds)


def _references(schema: dict[str, Any]) -> list[str]:
    choices = schema.get("anyOf", [schema])
    return [each["$ref"].rpartition("/")[2] for each in choices if "$ref" in each]


def _fields_of(answers: dict[str, Any], types: dict[str, Any]) -> str:
    """The fields of what is answered, with their types, folded."""
    schemas = [part.get("schema", {}) for each in answers.values() for part in each.get("content", {}).values()]
    objects = [each for schema in schemas for each in schema.get("anyOf", [schema])]
    named = [types.get(each["$ref"].rpartition("/")[2], {}) if "$ref" in each else each for each in objects]
    found = {field: _type_of(schema) for each in named for field, schema in each.get("properties", {}).items()}
    lines = [f"<li><code>{escape(field)}</code>: {escape(words)}</li>" for field, words in found.items()]
    return f"<details><summary>Fields of the answer</summary><ul>{''.join(lines)}</ul></details>" if lines else ""


def _type_of(schema: dict[str, Any]) -> str:
    """A type in words: `list of JobRow`, `text or null`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_type_of(each) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(map(str, schema.get("enum", [schema.get("const")])))
    if schema.get("type") == "array":
        return f"list of {_type_of(schema.get('items', {}))}"
    return {"string": "text", "object": "JSON"}.get(schema.get("type", "object"), str(schema.get("type")))
