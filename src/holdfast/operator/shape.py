"""Rows as people and programs read them: times in ISO 8601, stored JSON as itself, and everything redacted once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.core.redact import redact
from holdfast.kernel.questions.explain import iso

JSON_COLUMNS = frozenset({"data", "error", "payload", "sanitized_context", "units", "value"})
TIME_COLUMNS = frozenset({"at", "not_before", "lease_until", "since"})
FLAGS = frozenset({"added", "is_late", "is_paused", "parked", "paused", "retryable"})


def shape_row(row: NamedTuple | Mapping[str, Any]) -> dict[str, Any]:
    """A row as JSON. What a user or a provider wrote is redacted; keys stay as they are, for an operator must be
    able to name them."""
    values = row if isinstance(row, Mapping) else row._asdict()
    return {name: shape_value(name, value) for name, value in values.items()}


def shape_value(column: str, value: Any) -> Any:
    if value is None:
        return None
    if column in JSON_COLUMNS and isinstance(value, str):
        return redact(_parse(value))
    if isinstance(value, int) and (column in TIME_COLUMNS or column.endswith("_at")):
        return iso(value)
    return bool(value) if column in FLAGS else value


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # an effect's error is plain words
