"""SMTP against real servers on loopback: which failures leave a doubt, and how it is resolved."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from email.message import EmailMessage

import pytest

from holdfast.core.failure import Category, Failure
from holdfast.errors import CallError, SettingsError
from holdfast_systems.review.findings import Review
from holdfast_systems.review.imap import parse_imap_url
from holdfast_systems.review.notifier import Notifier
from holdfast_systems.review.render import build_message
from holdfast_systems.review.smtp import SmtpNotifier, parse_smtp_url
from tests.systems.review.imap_server import ImapServer
from tests.systems.review.smtp_server import SmtpServer

pytestmark = pytest.mark.spec("R9", "R6", "K12")

TOKEN = "c" * 40


def mail(recipient: str = "ada@example.test") -> EmailMessage:
    review = Review("fine\n.\nleading dots", (), "offline")
    return build_message(review, recipient, "7", 1, "r@holdfast.test", TOKEN, date=datetime(2026, 3, 1, tzinfo=UTC))


def notifier(server: SmtpServer, query: str = "", imap_url: str | None = None, login: str = "") -> SmtpNotifier:
    return SmtpNotifier.from_urls(f"smtp://{login}127.0.0.1:{server.port}{query}", imap_url, timeout_s=5)


async def failure_of(server: SmtpServer, query: str = "", login: str = "") -> Failure:
    with pytest.raises(CallError) as caught:
        await notifier(server, query, login=login).send(mail(), TOKEN)
    return caught.value.failure


async def test_a_mail_is_handed_over_with_its_deterministic_id() -> None:
    async with SmtpServer() as server:
        one: Notifier = notifier(server)
        assert await one.send(mail(), TOKEN) == f"<{TOKEN}@holdfast.test>"
        ((recipients, message),) = server.accepted
    assert recipients == ["ada@example.test"]
    assert f"Message-ID: <{TOKEN}@holdfast.test>\r\n".encode() in message and message.endswith(b"\r\n.\r\n")


@pytest.mark.parametrize("accepted", [True, False])
async def test_silence_after_the_content_is_ambiguous_whatever_happened(accepted: bool) -> None:
    async with SmtpServer({"CONTENT": "DROP"}, accepts_before_drop=accepted) as server:
        failure = await failure_of(server)
    assert failure.ambiguous and failure.retryable and failure.error_class == "SMTP_AMBIGUOUS"
    assert len(server.accepted) == accepted


@pytest.mark.parametrize("verb", ["CONNECT", "EHLO", "MAIL", "RCPT"])
async def test_a_connection_lost_before_data_proves_that_nothing_was_sent(verb: str) -> None:
    async with SmtpServer({verb: "DROP", "HELO": "DROP"}) as server:
        failure = await failure_of(server)
    assert not failure.ambiguous and failure.retryable and failure.category is Category.NETWORK and failure.faults


@pytest.mark.parametrize("verb", ["MAIL", "RCPT", "DATA", "CONTENT"])
async def test_an_answer_of_4xx_is_transient_and_definite(verb: str) -> None:
    async with SmtpServer({verb: "451 4.7.1 later"}) as server:
        failure = await failure_of(server)
    assert (failure.error_class, failure.ambiguous, failure.retryable) == ("SMTP_TEMPORARY", False, True)
    assert failure.status == 451 and not failure.faults and server.accepted == []


@pytest.mark.spec("R7")
@pytest.mark.parametrize(
    ("verb", "answer", "category", "error_class"),
    [
        ("RCPT", "550 5.1.1 no such user ada@example.test", Category.VALIDATION, "INVALID_RECIPIENT"),
        ("RCPT", "550 no such user", Category.VALIDATION, "INVALID_RECIPIENT"),
        ("RCPT", "553 5.1.3 bad syntax", Category.VALIDATION, "INVALID_RECIPIENT"),
        ("RCPT", "550 5.7.1 relaying denied", Category.POLICY, "RECIPIENT_REFUSED"),
        ("RCPT", "554 5.7.1 blocked", Category.POLICY, "RECIPIENT_REFUSED"),
        ("MAIL", "550 5.1.8 sender unknown", Category.POLICY, "SENDER_REFUSED"),
        ("CONTENT", "554 5.7.1 spam", Category.POLICY, "MESSAGE_REJECTED"),
    ],
)
async def test_an_answer_of_5xx_is_final(verb: str, answer: str, category: Category, error_class: str) -> None:
    async with SmtpServer({verb: answer}) as server:
        failure = await failure_of(server)
    assert (failure.category, failure.error_class) == (category, error_class)
    assert not failure.retryable and not failure.ambiguous and server.accepted == []
    assert "ada@" not in failure.message


async def test_a_server_that_says_goodbye_badly_has_still_taken_the_mail() -> None:
    async with SmtpServer({"QUIT": "DROP"}) as server:
        await notifier(server).send(mail(), TOKEN)
    assert len(server.accepted) == 1


async def test_nobody_listening_is_definite() -> None:
    async with SmtpServer() as server:
        port = server.port
    with pytest.raises(CallError) as caught:
        await SmtpNotifier.from_urls(f"smtp://127.0.0.1:{port}").send(mail(), TOKEN)
    assert caught.value.failure.error_class == "SMTP_UNREACHABLE" and not caught.value.failure.ambiguous


async def test_credentials_are_used_and_a_refusal_of_them_is_auth() -> None:
    async with SmtpServer(user="ada\0s3cr@t") as server:
        await notifier(server, login="ada:s3cr%40t@").send(mail(), TOKEN)
        failure = await failure_of(server, login="ada:wrong@")
    assert len(server.accepted) == 1
    assert (failure.category, failure.error_class) == (Category.AUTH, "SMTP_AUTH_FAILED")


async def test_starttls_that_is_not_offered_sends_nothing() -> None:
    async with SmtpServer() as server:
        failure = await failure_of(server, "?starttls=1")
    assert failure.error_class == "SMTP_NOT_SUPPORTED" and not failure.ambiguous and server.accepted == []


async def test_without_imap_the_class_is_neither_and_says_so() -> None:
    plain = SmtpNotifier.from_urls("smtp://127.0.0.1:25")
    assert (plain.effects, plain.can_look) == ("neither", False)
    both = SmtpNotifier.from_urls("smtp://127.0.0.1:25", "imaps://a:b@mail.example.test/Sent")
    assert (both.effects, both.can_look) == ("lookup", True)


async def test_an_ambiguous_send_is_resolved_over_imap() -> None:
    async with SmtpServer({"CONTENT": "DROP"}, accepts_before_drop=True) as server, ImapServer() as imap:
        one = notifier(server, "?archive=copies@example.test", imap.url)
        assert await one.lookup(TOKEN) is None
        with pytest.raises(CallError):
            await one.send(mail(), TOKEN)
        ((recipients, message),) = server.accepted
        assert recipients == ["ada@example.test", "copies@example.test"]
        imap.messages.append(message)  # what the archive mailbox received
        assert await one.lookup(TOKEN) == f"<{TOKEN}@holdfast.test>"
        assert await one.lookup("d" * 40) is None


@pytest.mark.spec("004.28")
async def test_a_mail_is_known_by_its_id_where_the_mailbox_keeps_everything() -> None:
    async with SmtpServer() as server, ImapServer() as imap:
        plain = notifier(server, imap_url=imap.url)
        archive = replace(plain, imap_keeps_mail=True)
        mail_id = await archive.send(mail(), TOKEN)
        assert (plain.keeps_ids, archive.keeps_ids) == (False, True) and not await archive.has_id(mail_id)
        imap.messages.append(server.accepted[0][1])
        assert await archive.has_id(mail_id) and not await archive.has_id('<a" OR ALL "b>')


@pytest.mark.parametrize("verb", ["LOGIN", "EXAMINE", "SEARCH"])
async def test_a_failed_search_is_an_error_and_never_not_found(verb: str) -> None:
    async with SmtpServer() as server, ImapServer(refuses=verb) as imap:
        with pytest.raises(CallError) as caught:
            await notifier(server, imap_url=imap.url).lookup(TOKEN)
    assert caught.value.failure.error_class == "IMAP_REFUSED"


async def test_an_unreachable_imap_server_is_an_error_and_never_not_found() -> None:
    async with SmtpServer() as server:
        async with ImapServer() as imap:
            url = imap.url
        with pytest.raises(CallError) as caught:
            await notifier(server, imap_url=url).lookup(TOKEN)
    assert caught.value.failure.error_class == "IMAP_UNREACHABLE" and caught.value.failure.retryable


async def test_a_server_that_never_answers_is_left_in_time() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(CallError) as caught:
            await SmtpNotifier.from_urls(f"smtp://127.0.0.1:{port}", timeout_s=0.2).send(mail(), TOKEN)
    assert caught.value.failure.error_class == "SMTP_UNREACHABLE" and not caught.value.failure.ambiguous


@pytest.mark.parametrize(
    "url", ["http://x", "smtp://", "smtp://h:99999999", "smtp://ada:pw@mail.example.test", "mail.example.test"]
)
def test_a_bad_smtp_url_is_a_setting_to_mend(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_smtp_url(url)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("url", ["imap://a:b@mail.example.test", "imaps://mail.example.test", "imaps://a:b@h/x%22y"])
def test_a_bad_imap_url_is_a_setting_to_mend(url: str) -> None:
    with pytest.raises(SettingsError):
        parse_imap_url(url)


def test_ports_follow_from_the_scheme_and_passwords_stay_out_of_sight() -> None:
    assert [parse_smtp_url(f"{s}://h{q}").port for s, q in (("smtp", ""), ("smtps", ""), ("smtp", "?starttls=1"))] == [
        25,
        465,
        587,
    ]
    address = parse_smtp_url("smtps://ada:s3cret@h")
    assert address.password == "s3cret" and "s3cret" not in repr(address)
    assert "s3cret" not in repr(parse_imap_url("imaps://ada:s3cret@h"))


@pytest.mark.spec("004.1")
@pytest.mark.parametrize("verb", ["MAIL", "RCPT", "CONTENT"])
async def test_a_sending_quota_of_a_day_is_waited_for(verb: str) -> None:
    async with SmtpServer({verb: "550 5.4.5 Daily user sending limit exceeded"}) as server:
        failure = await failure_of(server)
    assert (failure.category, failure.error_class, failure.retryable) == (Category.RATE_LIMIT, "QUOTA_WINDOW", True)
    assert not failure.ambiguous and failure.status == 550
