"""Fetches a unified diff at a URL, under the outbound policy: schemes, hosts, addresses, size and time."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

from holdfast import CallError, Category
from holdfast.providers.gate import path_in
from holdfast.providers.outbound import OutboundPolicy, fetch
from holdfast_systems.review.changelist import DIFF_BYTES_MAX, FetchedDiff, parse_diff

_SUBJECT = re.compile(r"^Subject: (?:\[PATCH[^\]]*\] ?)?(?P<subject>.+)$", re.MULTILINE)
_FROM = re.compile(r"^From: (?P<author>.+)$", re.MULTILINE)


async def fetch_diff(url: str, *, policy: OutboundPolicy) -> FetchedDiff:
    """The diff behind `url`. A mailed patch also gives title and author; otherwise the file's name is the title.

    An answer that is not a diff is an error here, not an empty review later.
    """
    body = (await fetch(url, replace(policy, bytes_max=min(policy.bytes_max, DIFF_BYTES_MAX)))).content
    if not body.strip():
        raise CallError.of(Category.VALIDATION, "DIFF_UNREADABLE", "The diff at this address is empty.")
    diff = (await asyncio.to_thread(parse_diff, body)).diff
    head = diff[: diff.find("\ndiff --git") + 1] or ""
    subject, author = _SUBJECT.search(head), _FROM.search(head)
    name = path_in(url).rstrip("/").rpartition("/")[2]
    return FetchedDiff(
        diff=diff,
        title=subject["subject"].strip() if subject else name,
        author=author["author"].strip() if author else "",
    )
