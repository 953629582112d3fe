"""Makes the mail of a review: the same review gives the same bytes, on every attempt and every machine.

The message id comes from the effect's token, the date and everything else from arguments; the MIME boundary
is derived too. Text from the change goes through redaction again, and never reaches a header unfolded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from html import escape
from itertools import groupby

from holdfast import CallError, Category
from holdfast.kit.redaction import redact_text
from holdfast_systems.review.findings import Finding, Review, counted, counts

SUBJECT_CHARS_MAX = 150
FINDINGS_SHOWN_MAX = 300
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,127}")
_COLOURS = {"error": "#b3261e", "warning": "#8a5a00", "info": "#445566"}


def build_message(
    review: Review,
    recipient: str,
    changelist_id: str,
    review_version: int,
    sender: str,
    token: str,
    *,
    date: datetime,
    title: str = "",
) -> EmailMessage:
    """The mail for one recipient. Raises INVALID_RECIPIENT for what is not one plain address."""
    assert _TOKEN.fullmatch(token), "tokens come from the effect ledger"
    to, from_ = _address(recipient), _address(sender, "INVALID_SENDER")
    clean = _clean(review)
    name = _one_line(_redacted(title))
    message = EmailMessage(policy=SMTP)
    message["From"] = from_
    message["To"] = to
    message["Subject"] = subject(clean, _one_line(changelist_id), review_version, name)
    message["Date"] = format_datetime(date)
    message["Message-ID"] = f"<{token}@{from_.domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message["X-Holdfast-Review"] = f"{_header_word(changelist_id)}; version={review_version}"
    heading = f"Review {review_version} of change {_one_line(changelist_id)}"
    message.set_content(text_body(clean, heading, name), cte="quoted-printable")
    message.add_alternative(html_body(clean, heading, name), subtype="html", cte="quoted-printable")
    message.set_boundary(f"=_{hashlib.sha256(token.encode()).hexdigest()[:40]}")
    return message


def subject(review: Review, changelist_id: str, review_version: int, title: str) -> str:
    """One line that tells whether to open the mail."""
    found = counts(review.findings)
    verdict = counted(review.findings) if any(found.values()) else "nothing found"
    line = f"[review {changelist_id[:60]} v{review_version}] {title or 'untitled'}: {verdict}"
    return line if len(line) <= SUBJECT_CHARS_MAX else line[: SUBJECT_CHARS_MAX - 1] + "…"


def text_body(review: Review, heading: str, title: str) -> str:
    """The mail as plain text, findings under their file."""
    lines = [heading, *([title] if title else []), "", review.summary, ""]
    for path, findings in _by_file(review.findings):
        lines.append(path or "The whole change")
        for finding in findings:
            where = f"line {finding.line}" if finding.line else "file" if path else "note"
            lines.append(f"  {finding.severity:<7} {where}: {finding.message} [{finding.rule}]")
            if finding.suggestion:
                lines += ["          Suggested line:", f"          | {finding.suggestion}"]
        lines.append("")
    lines += [*_left_out(review), f"Counts: {counted(review.findings)}. Critic: {review.critic}.", ""]
    return "\n".join(lines)


def html_body(review: Review, heading: str, title: str) -> str:
    """The mail as HTML: no script, no image, nothing fetched; every text escaped."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Review</title></head>',
        '<body style="font-family:sans-serif;max-width:48em">',
        f"<h1 style='font-size:1.3em'>{escape(heading)}</h1>",
        f"<p>{escape(title)}</p>" if title else "",
        f"<p>{escape(review.summary)}</p>",
    ]
    for path, findings in _by_file(review.findings):
        parts.append(f"<h2 style='font-size:1em'>{escape(path or 'The whole change')}</h2><ul>")
        parts += [_html_item(finding) for finding in findings]
        parts.append("</ul>")
    parts += [f"<p>{escape(line)}</p>" for line in _left_out(review)]
    parts.append(f"<p>{escape(counted(review.findings))}. Critic: {escape(review.critic)}.</p></body></html>")
    return "\n".join(part for part in parts if part) + "\n"


def _html_item(finding: Finding) -> str:
    where = f"line {finding.line}: " if finding.line else ""
    colour = _COLOURS[finding.severity]
    suggested = f"<br>Suggested line: <pre>{escape(finding.suggestion)}</pre>" if finding.suggestion else ""
    return (
        f'<li><strong style="color:{colour}">{finding.severity}</strong> {where}{escape(finding.message)} '
        f"<code>{escape(finding.rule)}</code>{suggested}</li>"
    )


def _by_file(findings: tuple[Finding, ...]) -> Iterator[tuple[str, list[Finding]]]:
    """Findings arrive in order of their file; the first FINDINGS_SHOWN_MAX are shown."""
    for path, group in groupby(findings[:FINDINGS_SHOWN_MAX], key=lambda finding: finding.path):
        yield path, list(group)


def _left_out(review: Review) -> list[str]:
    more = len(review.findings) - FINDINGS_SHOWN_MAX
    return [f"{more} more findings are not shown here."] if more > 0 else []


def _clean(review: Review) -> Review:
    """The review with every text redacted and on one line."""
    findings = tuple(
        Finding(
            _one_line(_redacted(finding.path)),
            finding.line,
            finding.severity,
            _one_line(_redacted(finding.rule)),
            _one_line(_redacted(finding.message)),
            finding.critic,
            _visible(_redacted(finding.suggestion)),
        )
        for finding in review.findings
    )
    return Review(_redacted(review.summary), findings, review.critic, review.tokens_in, review.tokens_out)


def _redacted(text: str) -> str:
    try:
        return redact_text(text)
    except Exception as error:  # whatever went wrong, unredacted text must not go out
        message = "A text could not be redacted, so no mail was made."
        raise CallError.of(Category.BUG, "REDACTION_FAILED", message) from error


def _one_line(text: str) -> str:
    return " ".join(_CONTROLS.sub(" ", text).split())


def _visible(line: str) -> str:
    """A line of code with its indentation, and without what a terminal or a mail reader would obey."""
    return _CONTROLS.sub(" ", line).rstrip()


def _header_word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._@/+-]", "_", text)[:100]


_PLAIN_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\\x00-\x20\x7f]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253}[A-Za-z0-9])?")


def is_plain_address(text: str) -> bool:
    """Whether a mail can be addressed to it: name@domain, and nothing else."""
    try:
        _address(text)
    except CallError:
        return False
    return True


def _address(text: str, error_class: str = "INVALID_RECIPIENT") -> Address:
    """One plain ASCII address; a list, a display name or a control character is refused."""
    try:
        if not _PLAIN_ADDRESS.fullmatch(text) or ".." in text:
            raise ValueError("not a plain address")
        return Address(addr_spec=text)
    except ValueError as error:
        message = "The address is not of the form name@domain; correct it."
        raise CallError.of(Category.VALIDATION, error_class, message) from error
