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
    groups: dict[str, list[str]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            group = (operation.get("tags") or ["routes"])[0]
            groups.setdefault(group, []).append(_operation(method, path, operation))
    body = "".join(f"<h2>{escape(name)}</h2>{''.join(parts)}" for name, parts in sorted(groups.items()))
    main = (
        f'<main id="main" tabindex="-1"><h1>{title}</h1>'
        '<p>The whole description, for tools: <a href="openapi.json">/openapi.json</a>. '
        "Each operation can be sent from here, with the token of this tab.</p>"
        f"{body}</main>"
    )
    head = ['<link rel="stylesheet" href="docs.css">', '<script type="module" src="static/docs.js"></script>']
    return frame("API", main, linked, head)


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    summary = operation.get("description") or operation.get("summary") or ""
    names = ", ".join(one["name"] for one in operation.get("parameters", ()))
    fields = _body(operation)
    return (
        f'<article><p><span class="method">{escape(method.upper())}</span> <code>{escape(path)}</code></p>'
        f"<p>{_code(escape(summary))}</p>"
        + (f"<p>Parameters: <code>{escape(names)}</code></p>" if names else "")
        + (f"<p>Body: <code>{escape(fields)}</code></p>" if fields else "")
        + f'<details data-operation="{escape(f"{method} {path}")}"><summary>Send</summary></details>'
        + "</article>"
    )


def _code(text: str) -> str:
    """What stands between back-ticks, as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def _body(operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    kinds = [f"{kind} {_schema_name(part.get('schema', {}))}".strip() for kind, part in content.items()]
    return ", ".join(kinds)


def _schema_name(schema: dict[str, Any]) -> str:
    choices = schema.get("anyOf", [schema])
    return " or ".join(one["$ref"].rpartition("/")[2] for one in choices if "$ref" in one)
