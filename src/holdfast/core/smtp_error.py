"""What a mail server's reply means (smtplib, aiosmtplib): 4yz may be tried again, 5yz may not.

A reply proves that nothing was accepted. The one exception of the rule is a sending quota, which some servers report
with 5yz although it ends by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from holdfast.core.client_error import attribute
from holdfast.core.failure import Category, Failure, failure

BY_REPLY: Mapping[int, tuple[Category, str]] = {
    421: (Category.NETWORK, "SMTP_UNAVAILABLE"),
    454: (Category.UPSTREAM, "SMTP_TEMPORARY"),
    500: (Category.BUG, "SMTP_NOT_SUPPORTED"),
    501: (Category.VALIDATION, "SMTP_BAD_REQUEST"),
    502: (Category.BUG, "SMTP_NOT_SUPPORTED"),
    503: (Category.BUG, "SMTP_NOT_SUPPORTED"),
    504: (Category.BUG, "SMTP_NOT_SUPPORTED"),
    530: (Category.AUTH, "SMTP_AUTH_FAILED"),
    534: (Category.AUTH, "SMTP_AUTH_FAILED"),
    535: (Category.AUTH, "SMTP_AUTH_FAILED"),
    538: (Category.AUTH, "SMTP_AUTH_FAILED"),
    550: (Category.POLICY, "SMTP_REFUSED"),
    551: (Category.POLICY, "SMTP_REFUSED"),
    552: (Category.VALIDATION, "SMTP_TOO_LARGE"),
    553: (Category.POLICY, "SMTP_REFUSED"),
    554: (Category.POLICY, "SMTP_REFUSED"),
    555: (Category.VALIDATION, "SMTP_BAD_REQUEST"),
}
FAULTY = frozenset({421, 451, 454})
_QUOTA = re.compile(
    r"(?i)\b(?:5\.4\.5|(?:daily|hourly|sending|rate)[a-z \-]{0,40}(?:limit|quota)|quota[a-z \-]{0,40}(?:day|hour))"
)


def read_smtp(error: BaseException, message: str) -> Failure | None:
    """The failure behind a mail client's error; None if no server replied."""
    if not any(base.__name__.startswith("SMTP") for base in type(error).__mro__):
        return None
    refused = attribute(error, "recipients")
    if isinstance(refused, Mapping | list | tuple) and refused:
        replies = [reply for reply in _replies(refused) if reply is not None]
        # All were refused. If one of them may be accepted later, the message is tried again for that one.
        replies.sort(key=lambda reply: reply[0] >= 500)
        return _of_reply(*replies[0], message) if replies else None
    reply = _reply(error)
    return None if reply is None else _of_reply(*reply, message)


def _of_reply(code: int, text: str, message: str) -> Failure:
    if _QUOTA.search(text[:1_000]):
        return failure(Category.RATE_LIMIT, "QUOTA_WINDOW", message, status=code)
    category, error_class = BY_REPLY.get(code) or _by_first_digit(code)
    return failure(category, error_class, message, faults=code in FAULTY, status=code)


def _by_first_digit(code: int) -> tuple[Category, str]:
    if code < 500:
        return Category.UPSTREAM, "SMTP_TEMPORARY"
    return Category.POLICY, "SMTP_REFUSED"


def _replies(refused: Mapping[object, object] | Iterable[object]) -> Iterable[tuple[int, str] | None]:
    if not isinstance(refused, Mapping):
        return [_reply(each) for each in refused]
    return [_pair(*each) for each in refused.values() if isinstance(each, tuple) and len(each) == 2]


def _reply(error: object) -> tuple[int, str] | None:
    for code_name, text_name in (("smtp_code", "smtp_error"), ("code", "message")):
        pair = _pair(attribute(error, code_name), attribute(error, text_name))
        if pair is not None:
            return pair
    return None


def _pair(code: object, text: object) -> tuple[int, str] | None:
    if not isinstance(code, int) or isinstance(code, bool) or not 400 <= code <= 599:
        return None
    return int(code), text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
