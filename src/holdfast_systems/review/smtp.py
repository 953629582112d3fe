"""Delivers over SMTP, one transaction per message, and knows which failures leave a doubt.

    connect, login, MAIL, RCPT          a failure here proves that nothing was sent
    DATA -> 354 -> content -> answer    an answer proves what happened; silence after DATA is ambiguous

A mail server does not deduplicate: the same Message-ID twice is two mails. So SMTP alone is of the class
`neither`, and an ambiguous send waits for a person. With an IMAP mailbox that receives a copy (the archive
address, or a Sent folder the server fills), the Message-ID can be looked up, and the class is `lookup`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from urllib.parse import parse_qs, unquote, urlsplit

import aiosmtplib

from holdfast import CallError, Category
from holdfast.errors import SettingsError
from holdfast.kit import classify
from holdfast_systems.review.imap import ImapAddress, find_message, has_message, parse_imap_url
from holdfast_systems.review.notifier import EffectClass


@dataclass(frozen=True, slots=True)
class SmtpAddress:
    """Where and how to hand mail over."""

    host: str
    port: int
    tls: bool
    starttls: bool
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    archive: str | None = None


def parse_smtp_url(url: str) -> SmtpAddress:
    """smtp://user:pass@host:port?starttls=1&archive=copies@example.test, or smtps:// for TLS at once.

    Credentials over a plain connection to another machine are refused: ask for STARTTLS or smtps.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingsError(["SMTP_URL is no URL."]) from error
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
        raise SettingsError(["SMTP_URL must read smtp://host:port or smtps://host:port."])
    options = parse_qs(parts.query)
    tls = parts.scheme == "smtps"
    starttls = options.get("starttls", ["0"])[0] in ("1", "true", "yes")
    is_local = parts.hostname in ("127.0.0.1", "::1", "localhost")
    if parts.username is not None and not (tls or starttls or is_local):
        raise SettingsError(["SMTP_URL has credentials but no TLS; add ?starttls=1 or use smtps://."])
    return SmtpAddress(
        host=parts.hostname,
        port=port or (465 if tls else 587 if starttls else 25),
        tls=tls,
        starttls=starttls,
        username=unquote(parts.username) if parts.username is not None else None,
        password=unquote(parts.password) if parts.password is not None else None,
        archive=options.get("archive", [None])[0],
    )


@dataclass(frozen=True, slots=True)
class SmtpNotifier:
    """Mail through an SMTP server, looked up over IMAP where an address for that is given."""

    smtp: SmtpAddress
    imap: ImapAddress | None = None
    timeout_s: float = 30.0
    tls_context: ssl.SSLContext | None = None
    name: str = "smtp"
    imap_keeps_mail: bool = False
    """Nobody deletes or moves what is in the mailbox."""

    @classmethod
    def from_urls(
        cls, smtp_url: str, imap_url: str | None = None, *, timeout_s: float = 30.0, imap_keeps_mail: bool = False
    ) -> SmtpNotifier:
        imap = parse_imap_url(imap_url) if imap_url else None
        return cls(parse_smtp_url(smtp_url), imap, timeout_s, imap_keeps_mail=imap_keeps_mail)

    @property
    def effects(self) -> EffectClass:
        return "lookup" if self.can_look else "neither"

    @property
    def can_look(self) -> bool:
        return self.imap is not None

    @property
    def keeps_ids(self) -> bool:
        return self.imap is not None and self.imap_keeps_mail

    async def send(self, message: EmailMessage, token: str) -> str:
        """Send in one transaction and return the Message-ID, which is what a lookup finds."""
        client = aiosmtplib.SMTP(
            hostname=self.smtp.host,
            port=self.smtp.port,
            use_tls=self.smtp.tls,
            start_tls=self.smtp.starttls,
            username=self.smtp.username,
            password=self.smtp.password,
            timeout=self.timeout_s,
            tls_context=self.tls_context,
        )
        try:
            await self._open_envelope(client, message)
            await _send_data(client, message)
        finally:
            client.close()
        return str(message["Message-ID"])

    async def _open_envelope(self, client: aiosmtplib.SMTP, message: EmailMessage) -> None:
        """Everything before DATA: whatever fails here, no mail has gone out."""
        sender, recipient = (message[name].addresses[0].addr_spec for name in ("From", "To"))
        try:
            async with asyncio.timeout(self.timeout_s):
                await client.connect()
                await client.mail(sender)
                await client.rcpt(recipient)
                if self.smtp.archive is not None:
                    await client.rcpt(self.smtp.archive)
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            raise _before_data(error, recipient) from error

    async def lookup(self, token: str) -> str | None:
        """The Message-ID of the mail sent under the token, if the mailbox has it."""
        assert self.imap is not None, "a notifier without IMAP cannot look; see can_look"
        return await find_message(self.imap, token, timeout_s=self.timeout_s)

    async def has_id(self, provider_id: str) -> bool:
        """Whether the mailbox has a mail of this Message-ID."""
        assert self.imap is not None, "a notifier without IMAP knows no ids; see keeps_ids"
        return await has_message(self.imap, provider_id, timeout_s=self.timeout_s)


async def _send_data(client: aiosmtplib.SMTP, message: EmailMessage) -> None:
    try:
        await client.data(message.as_bytes(policy=SMTP_POLICY))
    except aiosmtplib.SMTPDataError as error:
        raise _answered(error, "MESSAGE_REJECTED") from error
    except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
        text = "The mail server fell silent after DATA; the mail may have been accepted."
        raise CallError.of(Category.NETWORK, "SMTP_AMBIGUOUS", text, ambiguous=True, faults=True) from error
    with contextlib.suppress(aiosmtplib.SMTPException, OSError, TimeoutError):
        await client.quit()  # the mail is accepted; how the server says goodbye changes nothing


def _before_data(error: Exception, recipient: str) -> CallError:
    match error:
        case aiosmtplib.SMTPAuthenticationError() if error.code >= 500:
            text = "The mail server refused our credentials; check SMTP_URL."
            return CallError.of(Category.AUTH, "SMTP_AUTH_FAILED", text, status=error.code)
        case aiosmtplib.SMTPRecipientRefused():
            ours = error.recipient == recipient
            return _answered(error, "RECIPIENT_REFUSED" if ours else "ARCHIVE_REFUSED", of_recipient=ours)
        case aiosmtplib.SMTPSenderRefused():
            return _answered(error, "SENDER_REFUSED")
        case aiosmtplib.SMTPResponseException():
            return _answered(error, "SMTP_REFUSED")
        case _ if type(error) is aiosmtplib.SMTPException:  # the library's word for a missing extension
            text = "The mail server does not offer what SMTP_URL asks for (STARTTLS or AUTH)."
            return CallError.of(Category.BUG, "SMTP_NOT_SUPPORTED", text)
        case _ if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
            text = "The mail server's certificate is not trusted, or it speaks no TLS."
            return CallError.of(Category.BUG, "SMTP_TLS_FAILED", text)
        case _:
            text = f"The mail server cannot be reached ({type(error).__name__})."
            return CallError.of(Category.NETWORK, "SMTP_UNREACHABLE", text, faults=True)


_ENHANCED = re.compile(r"\b[45]\.(?P<subject>\d{1,3})\.\d{1,3}\b")


def _answered(error: aiosmtplib.SMTPResponseException, refused: str, *, of_recipient: bool = False) -> CallError:
    """An answer of the server is definite. Only its code is kept: its words may quote addresses."""
    code = error.code
    if code < 500:
        text = f"The mail server says 'later' (code {code})."
        faults = code == 421
        return CallError.of(Category.UPSTREAM, "SMTP_TEMPORARY", text, faults=faults, status=code)
    if classify(error).category is Category.RATE_LIMIT:
        text = f"The mail server takes no more from us for now (code {code})."
        return CallError.of(Category.RATE_LIMIT, "QUOTA_WINDOW", text, status=code)
    enhanced = _ENHANCED.search(str(error.message))
    subject = enhanced["subject"] if enhanced else None
    if of_recipient and (subject == "1" or (subject is None and code in (501, 510, 511, 550, 551, 553))):
        text = f"The mail server knows no such recipient (code {code}); correct the address."
        return CallError.of(Category.VALIDATION, "INVALID_RECIPIENT", text, status=code)
    text = f"The mail server rejected the mail (code {code}); see its policy."
    return CallError.of(Category.POLICY, refused, text, status=code)
