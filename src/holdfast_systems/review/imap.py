"""Finds a sent mail again in an IMAP mailbox, by the token in its Message-ID.

The mailbox is one that gets a copy of every mail: an archive address or a Sent folder. A failed search is an
error, never "not found": the difference is a second mail.
"""

from __future__ import annotations

import asyncio
import imaplib
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from holdfast import CallError, Category
from holdfast.errors import SettingsError


@dataclass(frozen=True, slots=True)
class ImapAddress:
    host: str
    port: int
    tls: bool
    username: str
    password: str = field(repr=False)
    mailbox: str = "INBOX"


def parse_imap_url(url: str) -> ImapAddress:
    """imaps://user:pass@host:port/Mailbox; the mailbox is INBOX unless named."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingsError(["IMAP_URL is no URL."]) from error
    if parts.scheme not in ("imap", "imaps") or not parts.hostname or parts.username is None:
        raise SettingsError(["IMAP_URL must read imaps://user:password@host:port/mailbox."])
    if parts.scheme == "imap" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise SettingsError(["IMAP_URL must use imaps:// unless the server is on this machine."])
    mailbox = unquote(parts.path.strip("/")) or "INBOX"
    if re.search(r'[\r\n"\\\x00]', mailbox):
        raise SettingsError(["IMAP_URL names a mailbox with quotes or control characters."])
    return ImapAddress(
        host=parts.hostname,
        port=port or (993 if parts.scheme == "imaps" else 143),
        tls=parts.scheme == "imaps",
        username=unquote(parts.username),
        password=unquote(parts.password or ""),
        mailbox=mailbox,
    )


async def find_message(address: ImapAddress, token: str, *, timeout_s: float) -> str | None:
    """The Message-ID that holds the token, or None when the mailbox certainly has no such mail."""
    assert re.fullmatch(r"[A-Za-z0-9._-]+", token), "tokens come from the effect ledger"
    header = await _header_of(address, f"<{token}@", timeout_s)
    if header is None:
        return None
    found = re.search(rf"<{re.escape(token)}@[^>]+>", header)
    return found[0] if found else f"<{token}>"


async def has_message(address: ImapAddress, message_id: str, *, timeout_s: float) -> bool:
    """Whether the mailbox has a mail of exactly this Message-ID."""
    if re.fullmatch(r"<[A-Za-z0-9._@+-]+>", message_id) is None:
        return False  # no Message-ID that we ever give
    return message_id in (await _header_of(address, message_id, timeout_s) or "")


async def _header_of(address: ImapAddress, text: str, timeout_s: float) -> str | None:
    """The Message-ID header of the first mail whose header has the text; None if there is certainly none."""
    try:
        return await asyncio.to_thread(_search, address, text, timeout_s)
    except imaplib.IMAP4.error as error:
        why = "The IMAP server refused the search; check IMAP_URL."
        raise CallError.of(Category.AUTH, "IMAP_REFUSED", why) from error
    except (OSError, TimeoutError) as error:
        why = f"The IMAP server cannot be reached ({type(error).__name__})."
        raise CallError.of(Category.NETWORK, "IMAP_UNREACHABLE", why) from error


def _search(address: ImapAddress, text: str, timeout_s: float) -> str | None:
    kind = imaplib.IMAP4_SSL if address.tls else imaplib.IMAP4
    with kind(address.host, address.port, timeout=timeout_s) as client:
        client.login(address.username, address.password)
        _checked(client.select(f'"{address.mailbox}"', readonly=True))
        numbers = _checked(client.search(None, "HEADER", "Message-ID", f'"{text}"'))[0]
        if not numbers or not numbers.split():
            return None
        first = numbers.split()[0].decode()
        fetched = _checked(client.fetch(first, "(BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])"))
    return b"".join(part[1] for part in fetched if isinstance(part, tuple)).decode("ascii", "replace")


def _checked(answer: tuple[str, list[Any]]) -> list[Any]:
    kind, data = answer
    if kind != "OK":
        raise imaplib.IMAP4.error("the server answered NO")
    return data
