"""What of an address may be shown: its scheme, host and path. User info, query and fragment may be credentials.

    https://ann:pw@host/a?sig=1    hide, number 3    https://host/a?sealed=3      what a job's input holds
                                   mask_addresses    https://[redacted]@host/a?[redacted]   what a log line holds

An address whose authority is not plainly `host` or `host:port` shows its scheme only: a password with a slash in it
would otherwise pass for a path.
"""

from __future__ import annotations

import re

MASK = "[redacted]"

_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30})(?P<slashes>://|:\\/\\/)(?P<rest>.*)", re.DOTALL)
_IN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}(?:://|:\\/\\/)[^\s\"<>]+")
_ONE_HOST = r"(?:\[[0-9A-Fa-f:.%]{2,60}\]|[^\s:@\[\]\\,]{1,255})(?::\d{0,5})?"
_HOST = re.compile(rf"{_ONE_HOST}(?:,{_ONE_HOST}){{0,31}}")
"""Databases and brokers may be named by all their servers."""
_SCHEME_SPOILT = r"(?:[A-Za-z][A-Za-z0-9+.-]{0,30}:[/\\]|//|\\\\)"
_WITHOUT_SCHEME = re.compile(
    rf"(?!git@[^@/]*(?:/|\Z))(?:[^\s/]+|{_SCHEME_SPOILT}\S*)@(?P<place>[^\s/@]+(?:/.*)?)", re.DOTALL
)
_QUERY_WITHOUT_SCHEME = re.compile(
    rf"(?P<place>{_SCHEME_SPOILT}?/?(?=[^\s/?#]*\.)[^\s/?#]+(?:/[^\s?#]*)?)[?#].+", re.DOTALL
)
_SEALED = re.compile(r"\?sealed=(\d{1,9})(?![\w&=%.-])")


def hide(text: str, number: int) -> str | None:
    """The text with every address in it reduced to what may be shown, and a reference to where the rest is kept; None
    if there is nothing to hide. A text that begins as an address is one, whatever characters follow; so is one without
    a scheme, or with a spoilt one (`https:/host`), that has a user, as ssh's `ann@host:path`, or a query behind a
    host. That everybody's user of ssh is `git` is no secret."""
    if _ADDRESS.match(text) is not None:
        return _hidden(text, number)
    if (bare := _WITHOUT_SCHEME.fullmatch(text)) is not None:
        return f"{bare['place']}?sealed={number}"
    if (bare := _QUERY_WITHOUT_SCHEME.fullmatch(text)) is not None:
        return f"{bare['place']}?sealed={number}"
    hidden = _IN_TEXT.sub(lambda match: _hidden(match[0], number) or match[0], text)
    return None if hidden == text else hidden


def sealed_number(text: str) -> int | None:
    """Where the rest of a hidden address is kept; None if nothing of it was hidden."""
    match = _SEALED.search(text)
    return None if match is None else int(match[1])


def carries_password(text: str) -> bool:
    """Whether an address has user info that opens doors: anything but the plain user of an ssh address."""
    parts = _split(text)
    if parts is None:
        return _WITHOUT_SCHEME.fullmatch(text) is not None and ":" in text.rpartition("@")[0]
    return bool(parts[1]) and (parts[0].lower() != "ssh" or ":" in parts[1])


def mask_addresses(text: str) -> str:
    """The text without the user info, queries and fragments of the addresses in it; references stay readable."""
    return _IN_TEXT.sub(_masked, text) if ":/" in text or ":\\/" in text else text


def _masked(match: re.Match[str]) -> str:
    parts = _split(match[0])
    if parts is None:
        return match[0]
    scheme, user, place, more = parts
    if not user and (not more or _SEALED.fullmatch(more)):
        return match[0]
    return f"{scheme}://{MASK + '@' if user else ''}{place}{'?' + MASK if more else ''}"


def _hidden(text: str, number: int) -> str | None:
    parts = _split(text)
    if parts is None:
        return None
    scheme, user, place, more = parts
    return f"{scheme}://{place}?sealed={number}" if user or more else None


def _split(text: str) -> tuple[str, str, str, str] | None:
    """Scheme, user info, host with path, and the rest from its `?` or `#` on; None for what is no address."""
    whole = _ADDRESS.match(text)
    if whole is None:
        return None
    rest = whole["rest"] if whole["slashes"] == "://" else whole["rest"].replace("\\/", "/")
    head = re.split(r"[?#]", rest, maxsplit=1)[0]
    authority, slash, path = head.partition("/")
    user, _, host = authority.rpartition("@")
    if host and _HOST.fullmatch(host) is None:
        return whole["scheme"], rest, "", ""
    return whole["scheme"], user, f"{host}{slash}{path}", rest[len(head) :]
