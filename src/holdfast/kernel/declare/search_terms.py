"""What a job can be found by: the values of the fields of its input that its kind declares.

    @app.job(search=("order_id", "customer.email_id"))

Written in the commit that accepts the job, and again in the one that corrects its input. A value that is masked
wherever it is shown is not kept here either.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.core.redact import redact

VALUE_LENGTH_MAX = 200
VALUES_MAX = 20

Term = tuple[str, str]
"""A declared field, by its path, and a value in small letters."""


def terms_of(fields: Sequence[str], payload: str) -> tuple[Term, ...]:
    """The terms of a stored input. A list has one for each of its first values; what is neither text, number nor truth
    value has none."""
    document = json.loads(payload)
    terms: dict[Term, None] = {}
    for path in fields:
        for value in list(_values(document, path.split(".")))[:VALUES_MAX]:
            text = _text(path.rpartition(".")[2], value)
            if text is not None:
                terms[path, text] = None
    return tuple(terms)


def _values(document: Any, path: Sequence[str]) -> Iterator[Any]:
    if isinstance(document, list):
        for item in document[:VALUES_MAX]:
            yield from _values(item, path)
    elif not path:
        yield document
    elif isinstance(document, dict) and path[0] in document:
        yield from _values(document[path[0]], path[1:])


def _text(name: str, value: Any) -> str | None:
    if not isinstance(value, str | int | float) or redact({name: value}, emails=False) != {name: value}:
        return None
    return term_value(value if isinstance(value, str) else json.dumps(value))


def term_value(text: str) -> str:
    """A value as it is kept and looked for."""
    return text.strip().lower()[:VALUE_LENGTH_MAX].replace("\0", "")
