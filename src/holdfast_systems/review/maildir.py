"""Delivers into a local Maildir: the offline default, one folder per recipient.

    root/ada@example.test/{tmp,new,cur}        the file name is derived from the token

A second delivery under the same token is the same file, so it cannot happen twice: the message is written to
tmp, synced, then linked into new, and a link never overwrites. A reader may move the mail to cur and add
flags; it is still found there. Only a mail that somebody deleted is forgotten, so that a mail which is not there may
have been: ids prove nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP, default
from pathlib import Path

from holdfast import CallError, Category
from holdfast_systems.review.notifier import EffectClass

_NAME = re.compile(r"[0-9a-f]{32}\.holdfast")


@dataclass(frozen=True, slots=True)
class MaildirNotifier:
    """Mails as files under `root`."""

    root: Path
    name: str = "maildir"
    effects: EffectClass = "token"
    can_look: bool = True
    keeps_ids: bool = False

    async def send(self, message: EmailMessage, token: str) -> str:
        """Deliver once per token and return the file's name. Durable when it returns."""
        try:
            return await asyncio.to_thread(_deliver, self.root, message, token)
        except OSError as error:
            text = f"The Maildir cannot be written: {error.strerror}."
            raise CallError.of(Category.UPSTREAM, "MAILDIR_UNWRITABLE", text, ambiguous=True) from error

    async def lookup(self, token: str) -> str | None:
        """The name of the mail delivered under the token, in whichever folder it is."""
        try:
            return await asyncio.to_thread(_find, self.root, token)
        except OSError as error:
            text = f"The Maildir cannot be read: {error.strerror}."
            raise CallError.of(Category.UPSTREAM, "MAILDIR_UNREADABLE", text) from error

    async def has_id(self, provider_id: str) -> bool:
        raise AssertionError("a mail that is not there may have been read and deleted; see keeps_ids")


def read_mail(root: Path, recipient: str, name: str) -> EmailMessage | None:
    """A mail that was delivered here, by the id that `send` gave; None if it is not here, or not any more. Blocks."""
    folder = root / folder_name(recipient)
    if not _NAME.fullmatch(name):
        return None
    places = [folder / "new" / name, *(folder / "cur").glob(f"{name}*")]
    for path in places:
        if path.is_file():
            return message_from_bytes(path.read_bytes(), _class=EmailMessage, policy=default)
    return None


def file_name(token: str) -> str:
    """The unique part of a Maildir name: no colon, no slash, the same for every attempt."""
    return f"{hashlib.sha256(token.encode()).hexdigest()[:32]}.holdfast"


def folder_name(recipient: str) -> str:
    """A directory name for an address: readable, no separators, no leading dot, different for each address."""
    quoted = re.sub(r"[^a-z0-9@._+-]", lambda match: "".join(f"%{byte:02x}" for byte in match[0].encode()), recipient)
    if quoted.startswith((".", "-")):
        quoted = f"%{ord(quoted[0]):02x}{quoted[1:]}"
    if 0 < len(quoted) <= 120:
        return quoted
    return f"{quoted[:80]}%-{hashlib.sha256(recipient.encode()).hexdigest()[:32]}"


def _deliver(root: Path, message: EmailMessage, token: str) -> str:
    name = file_name(token)
    folder = root / folder_name(str(message["To"]))
    for part in ("tmp", "new", "cur"):
        (folder / part).mkdir(parents=True, exist_ok=True, mode=0o700)
    if _in_folder(folder, name):
        return name
    draft = folder / "tmp" / f"{name}.{os.getpid()}.{secrets.token_hex(8)}"
    try:
        _write_synced(draft, message.as_bytes(policy=SMTP.clone(linesep="\n")))
        _link_once(draft, folder, name)
    finally:
        draft.unlink(missing_ok=True)
    _sync_directory(folder / "new")
    return name


def _link_once(draft: Path, folder: Path, name: str) -> None:
    target = folder / "new" / name
    try:
        os.link(draft, target)
    except FileExistsError:
        return  # another attempt delivered the same mail
    # A reader may have moved an earlier delivery to cur between our look and our link.
    if _in_cur(folder, name):
        target.unlink(missing_ok=True)


def _write_synced(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _in_folder(folder: Path, name: str) -> bool:
    return (folder / "new" / name).exists() or _in_cur(folder, name)


def _in_cur(folder: Path, name: str) -> bool:
    return any(entry.name.partition(":")[0] == name for entry in (folder / "cur").iterdir())


def _find(root: Path, token: str) -> str | None:
    name = file_name(token)
    if not root.is_dir():
        return None
    folders = [folder for folder in root.iterdir() if (folder / "new").is_dir() and (folder / "cur").is_dir()]
    return name if any(_in_folder(folder, name) for folder in folders) else None
