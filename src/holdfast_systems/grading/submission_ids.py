"""Checks the ids and cursors of submissions that callers send: what cannot be one names nothing."""

from __future__ import annotations

import re

from holdfast import NotFound
from holdfast.errors import InvalidInput

UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def checked_id(submission_id: str) -> str:
    """The id in one spelling; 404 for what can be none."""
    if not UUID.fullmatch(submission_id):
        raise NotFound("There is no such submission.")
    return submission_id.lower()


def checked_cursor(cursor: str | None) -> str | None:
    """The cursor of a page of submissions; 422 for what no page gave."""
    if cursor is not None and not UUID.fullmatch(cursor):
        raise InvalidInput("The cursor is not one of ours.")
    return cursor
