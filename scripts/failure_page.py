"""Writes the tables of docs/explanation/what-a-failure-means.md from the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.failure import BY_CODE, BY_STATUS, RETRYABLE, Category
from holdfast.core.server_error import BY_CODE as BY_GRPC
from holdfast.core.server_error import BY_REPLY, BY_SQLSTATE

BEGIN, END = "<!-- tables: written from the code -->", "<!-- end of tables -->"
TABLES: Mapping[str, Mapping[Any, tuple[Category, str]]] = {
    "HTTP status": BY_STATUS,
    "Provider's code with a status below 500": BY_CODE,
    "gRPC status": BY_GRPC,
    "SQLSTATE, or its first characters": BY_SQLSTATE,
    "Mail server's reply": BY_REPLY,
}


def tables() -> str:
    return "\n\n".join(_table(title, rows) for title, rows in TABLES.items())


def with_tables(page: str) -> str:
    """The page with its tables as the code has them now."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{rest.partition(END)[2]}"


def _table(title: str, rows: Mapping[Any, tuple[Category, str]]) -> str:
    lines = [f"| {title} | class | category | retried |", "| --- | --- | --- | --- |"]
    for key, (category, error_class) in rows.items():
        lines.append(f"| `{key}` | `{error_class}` | `{category}` | {'yes' if category in RETRYABLE else 'no'} |")
    return "\n".join(lines)
