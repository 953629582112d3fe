"""What of an address may be shown: its scheme, host and path. User info, query and fragment may be credentials.

    https://ann:pw@host/a?sig=1    hide, number 3    https://host/a?sealed=3      what a job's input holds
                                   mask_addresses    https://[redacted]@host/a?[redacted]   what a log line holds

An address whose authority is not plainly `host` or `host:port`, or may be the beginning of a user's with an `@` in what
looks like its path or query, shows its scheme only: a password with a slash in it would otherwise pass for a path. A
path ends where a mistyped query begins: at an encoded `?` or `#`, or at a parameter (`;jsessionid=`, `&token=`).
"""

from __future__ import annotations

import re
from unicodedata import normalize

MASK = "[redacted]"

_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30})(?P<slashes>://|:\\/\\/)(?P<rest>.*)", re.DOTALL)
_IN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}(?:://|:\\/\\/)[^\s\"<>]+")
_ONE_HOST = r"(?:\[[0-9A-Fa-f:.%]{2,60}\]|(?:[^\s:@\[\]\\,%]|%2[Ff]){1,255})(?::\d{0,5})?"
_HOST = re.compile(rf"{_ONE_HOST}(?:,{_ONE_HOST}){{0,31}}")
"""Databases and brokers may be named by all their servers."""
_USER_AT = re.compile(r"[^\s/:@?#]+@(?P<place>[^\s/:@?#]+:[^\s@?#]*)")
_PLAIN_USER_AT = re.compile(r"git@[^@?#]*")
_LOCAL = re.compile(r"/(?!/)")
_PROSE = re.compile(r"[{\[]\s*[{\[\"\]}]|\"|(?!(?i:https?|ssh):|[A-Za-z][A-Za-z0-9+.-]{0,30}:[/\\]|//|\\\\)[^\s@?#]*\s")
"""What is no address: JSON, or a text that begins with a plain word, unless it begins with a spoilt scheme."""
_AT = re.compile(r"@|%40")
_SIGN = re.compile(r"[@?#]|%(?:40|3[Ff]|23)")
_PARAMETERS = re.compile(r"%(?:3[Ff]|23)|[;&][^;&/=]*=")
_SEALED = re.compile(r"\?sealed=(\d{1,9})(?![\w&=%.-])")


def hide(text: str, number: int) -> str | None:
    """The text with every address in it reduced to what may be shown, and a reference to where the rest is kept; None
    if there is nothing to hide.

    A text that begins as an address is one, whatever characters follow. What has no scheme, or a spoilt one, and a sign
    of a user or a query shows nothing of itself, for nobody can say how it was meant; but for the host and path of
    ssh's `ann@host:path`. That everybody's user of ssh is `git` is no secret, and a path of this machine holds none.
    Wide and other look-alikes of the signs count as these."""
    plain = normalize("NFKC", text).strip()
    if _ADDRESS.match(plain) is not None:
        return _hidden(plain, number)
    if _PROSE.match(plain) is not None:
        hidden = _IN_TEXT.sub(lambda match: _hidden(match[0], number) or match[0], text)
        return None if hidden == text else hidden
    if _SIGN.search(plain) is None or _LOCAL.match(plain) is not None or _PLAIN_USER_AT.fullmatch(plain) is not None:
        return None
    bare = _USER_AT.fullmatch(plain)
    return f"{bare['place'] if bare is not None else ''}?sealed={number}"


def sealed_number(text: str) -> int | None:
    """Where the rest of a hidden address is kept; None if nothing of it was hidden."""
    match = _SEALED.search(text)
    return None if match is None else int(match[1])


def carries_password(text: str) -> bool:
    """Whether an address has user info that opens doors: anything but the plain user of an ssh address."""
    plain = normalize("NFKC", text).strip()
    parts = _split(plain)
    if parts is None:
        return ":" in plain.rpartition("@")[0] and _LOCAL.match(plain) is None and _PROSE.match(plain) is None
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
    behind = path if slash else rest[len(head) :]
    is_part = not slash or user or not host or ":" in host
    if (host and _HOST.fullmatch(host) is None) or (is_part and _AT.search(behind) is not None):
        return whole["scheme"], rest, "", ""
    path = _PARAMETERS.split(path, maxsplit=1)[0]
    return whole["scheme"], user, f"{host}{slash}{path}", rest[len(authority) + len(slash) + len(path) :]
