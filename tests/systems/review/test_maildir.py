"""Maildir delivery on a real file system: once per token, whoever tries and however often."""

import asyncio
import mailbox
import os
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path

import pytest

from holdfast.errors import CallError
from holdfast_systems.review.findings import Review
from holdfast_systems.review.maildir import MaildirNotifier, file_name, folder_name
from holdfast_systems.review.notifier import Notifier
from holdfast_systems.review.render import build_message

pytestmark = pytest.mark.spec("R9", "K12")

TOKEN = "a" * 40


def mail(recipient: str = "ada@example.test", token: str = TOKEN, summary: str = "fine") -> EmailMessage:
    review = Review(summary, (), "offline")
    return build_message(review, recipient, "7", 1, "r@holdfast.test", token, date=datetime(2026, 3, 1, tzinfo=UTC))


def mails(root: Path, recipient: str = "ada@example.test") -> list[mailbox.MaildirMessage]:
    return list(mailbox.Maildir(root / folder_name(recipient), create=False))


async def test_a_mail_is_delivered_readable_and_found_again(tmp_path: Path) -> None:
    notifier: Notifier = MaildirNotifier(tmp_path / "mail")
    assert await notifier.lookup(TOKEN) is None
    provider_id = await notifier.send(mail(), TOKEN)
    assert provider_id == file_name(TOKEN) == await notifier.lookup(TOKEN)
    assert await notifier.lookup("b" * 40) is None
    (delivered,) = mails(tmp_path / "mail")
    assert delivered["Message-ID"] == f"<{TOKEN}@holdfast.test>" and delivered.is_multipart()
    assert os.listdir(tmp_path / "mail" / "ada@example.test" / "tmp") == []


async def test_a_second_send_under_the_token_is_no_second_mail_and_overwrites_nothing(tmp_path: Path) -> None:
    notifier = MaildirNotifier(tmp_path)
    first = await notifier.send(mail(), TOKEN)
    assert await notifier.send(mail(summary="another text"), TOKEN) == first
    (delivered,) = mails(tmp_path)
    assert b"another text" not in delivered.as_bytes()


async def test_many_workers_at_once_deliver_once(tmp_path: Path) -> None:
    notifier = MaildirNotifier(tmp_path)
    ids = await asyncio.gather(*(notifier.send(mail(), TOKEN) for _ in range(40)))
    assert len(set(ids)) == 1 and len(mails(tmp_path)) == 1


async def test_a_delivery_that_comes_between_look_and_link_is_not_overwritten(tmp_path: Path) -> None:
    """The worst moment: another worker delivers while this one writes its draft."""

    class Overtaken(EmailMessage):
        def as_bytes(self, *arguments: object, **options: object) -> bytes:
            (tmp_path / "ada@example.test" / "new" / file_name(TOKEN)).write_text("the other worker's")
            return b"ours"

    message = Overtaken()
    message["To"] = "ada@example.test"
    assert await MaildirNotifier(tmp_path).send(message, TOKEN) == file_name(TOKEN)
    folder = tmp_path / "ada@example.test"
    assert (folder / "new" / file_name(TOKEN)).read_text() == "the other worker's"
    assert os.listdir(folder / "tmp") == []


async def test_a_mail_that_was_read_is_still_known(tmp_path: Path) -> None:
    notifier = MaildirNotifier(tmp_path)
    await notifier.send(mail(), TOKEN)
    folder = tmp_path / "ada@example.test"
    os.rename(folder / "new" / file_name(TOKEN), folder / "cur" / f"{file_name(TOKEN)}:2,S")
    assert await notifier.lookup(TOKEN) == file_name(TOKEN)
    await notifier.send(mail(), TOKEN)
    assert os.listdir(folder / "new") == []


async def test_each_recipient_has_a_folder_of_its_own(tmp_path: Path) -> None:
    notifier = MaildirNotifier(tmp_path)
    await notifier.send(mail(), TOKEN)
    await notifier.send(mail("bob@example.test", "b" * 40), "b" * 40)
    assert len(mails(tmp_path)) == len(mails(tmp_path, "bob@example.test")) == 1


def test_folder_names_are_safe_and_distinct() -> None:
    addresses = ["../../etc@x", "/abs@x", ".hidden@x", "-rf@x", "a/b@x", "a%2fb@x", "Ada@x", "ada@x", "ü@x", "a\0b@x",
                 "x" * 300 + "@x", "x" * 299 + "y@x", ""]  # fmt: skip
    names = [folder_name(address) for address in addresses]
    assert len(set(names)) == len(names)
    for name in names:
        assert name and len(name) < 200 and not set(name) & set("/\0:\\") and name[0] not in ".-"


async def test_a_maildir_that_cannot_be_written_is_a_retryable_doubt(tmp_path: Path) -> None:
    (tmp_path / "mail").write_text("a file, not a directory")
    with pytest.raises(CallError) as caught:
        await MaildirNotifier(tmp_path / "mail").send(mail(), TOKEN)
    assert caught.value.failure.retryable and caught.value.failure.ambiguous
