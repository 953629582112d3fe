"""The query language of the operator: one parser for console, API and command line.

    state:held provider:llm owner:carla age:>10m error:422 input.order_id:7 "parcel number 399" sort:oldest

A word is `field:value`, or text that the job has to do with: one of its ids, the beginning of its id, or a piece of its
input. All words must fit. A value in quotes may hold spaces, and quotes after a backslash. It is meant letter for
letter; with `*` at its end, which stands for anything, large and small letters are alike, and an error is found by any
piece of it. `sort` says in which order. What cannot be read is refused with the nearest field that there is. Pure: the
time is an argument.

Why so: docs/decisions/0033-one-query.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from holdfast.core.given import nearest
from holdfast.core.job import JobOrder, State
from holdfast.core.text_filter import TextFilter, contains, escape_pattern, parse_text
from holdfast.errors import InvalidInput

QUERY_LENGTH_MAX = 1_000
WORDS_MAX = 20
STATES = {
    **{str(state): (state, None) for state in State},
    "held": (State.QUEUED, True),
    "running": (State.PROCESSING, None),
}
TEXTS = ("kind", "queue", "stage", "provider", "owner", "error", "key")
FIELDS = ("state", *TEXTS, "id", "age", "since", "until", "input.<field>", "sort")
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_WORD = re.compile(r'(?:(?P<field>[A-Za-z_][\w.]*):)?(?:"(?P<quoted>(?:[^"\\]|\\[\s\S])*)"|(?P<plain>[^\s"]+))(?=\s|$)')
_ESCAPED = re.compile(r"\\([\"\\])")
_SPAN = re.compile(r"(?P<sign>[<>]?)(?P<number>\d{1,9})(?P<unit>[smhd])")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?Z?)?", re.ASCII | re.IGNORECASE)
_SEVERAL = re.compile(rf" (?:{'|'.join(FIELDS[:-2])}|sort|input\.[\w.]+):")
_ID_PART = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}")


Patterns = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Query:
    """Which jobs. Everything that is set must fit."""

    sort: JobOrder = JobOrder.NEWEST
    state: State | None = None
    held: bool | None = None
    kind: TextFilter | None = None
    queue: TextFilter | None = None
    stage: TextFilter | None = None
    provider: TextFilter | None = None
    owner: TextFilter | None = None
    error: TextFilter | None = None
    key: TextFilter | None = None
    from_id: str | None = None
    to_id: str | None = None
    created_from: int | None = None
    created_to: int | None = None
    inputs: tuple[Patterns, ...] = ()
    """Pieces of the input: of each, one of the patterns must fit."""
    terms: tuple[tuple[str, str], ...] = ()
    """Those of the inputs that name a whole value: the path of the field, and the value."""
    texts: tuple[str, ...] = ()

    def has_only_texts(self) -> bool:
        """Whether it names no field: it may be something that somebody holds in hand."""
        return bool(self.texts) and self == Query(texts=self.texts)


def parse_query(text: str, now: int) -> Query:
    """Read a query, or raise `InvalidInput` with a sentence that says which word is wrong and what would be right."""
    if len(text) > QUERY_LENGTH_MAX:
        raise InvalidInput(f"A query has at most {QUERY_LENGTH_MAX:,} characters.")
    query, at, words = Query(), 0, 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        word = _WORD.match(text, at)
        if word is None:
            raise InvalidInput(f"The query cannot be read from here on: {text[at : at + 40]} (is a quote left open?)")
        words += 1
        if words > WORDS_MAX:
            raise InvalidInput(f"A query has at most {WORDS_MAX} words.")
        value = word["plain"] if word["quoted"] is None else _ESCAPED.sub(r"\1", word["quoted"])
        query = _add(query, word["field"], value, now) if word["field"] else _add_text(query, value, word["plain"])
        at = word.end()
    return query


def join_words(words: Iterable[str]) -> str:
    """One query of what a shell gave word by word: `'owner:Carla Smith'` is one value, `'state:dead error:422'` two."""
    return " ".join(map(_quote, words))


def _quote(word: str) -> str:
    field, colon, value = word.partition(":")
    if " " not in word or '"' in word or _SEVERAL.search(word):
        return word
    return f'{field}:"{value}"' if colon and " " not in field else f'"{word}"'


def _add_text(query: Query, text: str, plain: str | None) -> Query:
    """Text is looked for as it stands; but what was meant for a field would find nothing, and not say why."""
    name, colon, rest = (plain or "").partition(":")
    field = name.lstrip("-!")
    if colon and (field.lower() in FIELDS or field.startswith("input.")):
        if not rest:
            raise InvalidInput(f"'{field}:' needs a value.")
        raise InvalidInput(f"A query says what must fit, and nothing that must not; leave '{name[0]}' out.")
    return replace(query, texts=(*query.texts, text))


def _add(query: Query, name: str, value: str, now: int) -> Query:
    field = name.lower()
    if not value:
        raise InvalidInput(f"'{field}:' needs a value.")
    if name.startswith("input."):
        terms = query.terms if value.endswith("*") else (*query.terms, (name.removeprefix("input."), value))
        return replace(query, inputs=(*query.inputs, _piece(name.rpartition(".")[2], value)), terms=terms)
    if field in TEXTS:
        return _set(query, field, **{field: contains(value) if field == "error" else parse_text(value)})
    if field == "state":
        return _state(query, value)
    if field == "sort":
        return _sort(query, value)
    if field == "id":
        return _id(query, value)
    if field in ("age", "since", "until"):
        return _time(query, field, value, now)
    raise InvalidInput(f"There is no field '{field}'{_meant(field, FIELDS)}. Fields: {', '.join(FIELDS)}.")


def _set(query: Query, field: str, **values: object) -> Query:
    if any(getattr(query, name) is not None for name in values):
        raise InvalidInput(f"'{field}:' stands twice in the query.")
    return replace(query, **values)  # type: ignore[arg-type]


def _state(query: Query, value: str) -> Query:
    if value.lower() not in STATES:
        raise InvalidInput(f"There is no state '{value}'{_meant(value, STATES)}. States: {', '.join(STATES)}.")
    state, held = STATES[value.lower()]
    return replace(_set(query, "state", state=state), held=held)


def _sort(query: Query, value: str) -> Query:
    known = tuple(map(str, JobOrder))
    if value.lower() not in known:
        raise InvalidInput(f"There is no order '{value}'{_meant(value, known)}. Orders: {', '.join(known)}.")
    if query.sort is not JobOrder.NEWEST:
        raise InvalidInput("'sort:' stands twice in the query.")
    return replace(query, sort=JobOrder(value.lower()))


def _id(query: Query, value: str) -> Query:
    part = value.lower().rstrip("*")
    if not _ID_PART.fullmatch(part):
        raise InvalidInput(f"'id:{value}' must be a job's id, or its first 8 characters or more.")
    lowest, highest = id_range(part)
    return replace(_set(query, "id", from_id=lowest), to_id=highest)


def id_range(part: str) -> tuple[str, str]:
    """The lowest and the highest id that begin like this."""
    digits = part.replace("-", "")[:32]
    return str(UUID(digits.ljust(32, "0"))), str(UUID(digits.ljust(32, "f")))


def is_id_part(text: str) -> bool:
    return _ID_PART.fullmatch(text.lower()) is not None


def _time(query: Query, field: str, value: str, now: int) -> Query:
    """When it was accepted: so long ago, or at a moment in UTC."""
    moment = _moment(value) if field != "age" else None
    span = _SPAN.fullmatch(value)
    if moment is None and (span is None or (field != "age" and span["sign"])):
        example = "age:>10m or age:<2h" if field == "age" else f"{field}:2h or {field}:2026-01-31T15:48Z"
        raise InvalidInput(f"'{field}:{value}' must be a time such as {example}, in s, m, h or d.")
    if moment is None and span is not None:
        moment = now - int(span["number"]) * UNITS_MS[span["unit"]]
    is_from = field == "since" or (span is not None and span["sign"] == "<")
    return _set(query, field, **{"created_from" if is_from else "created_to": moment})


def _moment(value: str) -> int | None:
    if _MOMENT.fullmatch(value) is None:
        return None
    try:
        return int(datetime.fromisoformat(value.upper()).replace(tzinfo=UTC).timestamp() * 1_000)
    except ValueError:  # there is no such day
        return None


def _meant(word: str, known: Iterable[str]) -> str:
    near = nearest(word.lower(), known)
    return f"; you may mean '{near}'" if near else ""


def _piece(name: str, value: str) -> Patterns:
    """A field of the stored input, which is compact JSON: a text, or a value before the next field or the end."""
    field, wanted = escape_pattern(json.dumps(name)), _pattern(value)
    text = escape_pattern(json.dumps(value.rstrip("*"))[1:-1])
    rest = "%" if value.endswith("*") else ""
    return f'%{field}:"{text}{rest}"%', f"%{field}:{wanted},%", f"%{field}:{wanted}}}%"


def as_patterns(text: str) -> Patterns:
    """Text anywhere in the stored input."""
    pattern = contains(json.dumps(text)[1:-1]).text
    return pattern, pattern, pattern


def _pattern(value: str) -> str:
    return f"{escape_pattern(value.rstrip('*'))}%" if value.endswith("*") else escape_pattern(value)
