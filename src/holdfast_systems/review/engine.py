"""What the stages of a review work with: providers, clients and the ways to the world. Opens no connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import httpx

from holdfast import Provider
from holdfast.kit.redaction import redact_text
from holdfast.providers.bounded import trust
from holdfast.providers.openai import OpenAIClient
from holdfast_systems.review import offline_critic
from holdfast_systems.review.changelist import Changelist, FetchedDiff
from holdfast_systems.review.changes import Source, fetch_source
from holdfast_systems.review.findings import Review
from holdfast_systems.review.http_mail import HttpMailNotifier
from holdfast_systems.review.llm_chunks import Redact
from holdfast_systems.review.maildir import MaildirNotifier
from holdfast_systems.review.notifier import Notifier
from holdfast_systems.review.settings import ReviewSettings
from holdfast_systems.review.smtp import SmtpNotifier

T = TypeVar("T")
FOR_EVER_S = 100 * 365 * 86_400.0
"""A Maildir remembers a token as long as its file is there."""


class FetchSource(Protocol):
    def __call__(self, settings: ReviewSettings, source: Source, /, *, trusted: bool) -> Awaitable[FetchedDiff]: ...


class Criticise(Protocol):
    def __call__(
        self, changelist: Changelist, contents: Mapping[str, str], /, *, timeout_s: float, sizes: Mapping[str, int]
    ) -> Awaitable[Review]: ...


class RunBlocking(Protocol):
    """Runs what would block the loop. The default is a thread; a simulator runs it where it stands."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True)
class Engine:
    """Everything the stages reach for; tests put their own in place of any of it."""

    settings: ReviewSettings
    source: Provider
    critic: Provider
    mail: Provider
    notifier: Notifier
    client: OpenAIClient | None = None
    fetch: FetchSource = fetch_source
    criticise: Criticise = offline_critic.review
    redact: Redact = redact_text
    run_blocking: RunBlocking = asyncio.to_thread
    closers: tuple[Callable[[], Awaitable[None]], ...] = ()


def engine_for(settings: ReviewSettings) -> Engine:
    """The engine that the settings ask for."""
    client = OpenAIClient(settings.openai_base_url, settings.openai_api_key) if settings.openai_base_url else None
    notifier, closers = _notifier(settings)
    if client is not None:
        closers = (*closers, client.aclose)
    return Engine(
        settings,
        source=source_provider(settings),
        critic=critic_provider(settings),
        mail=mail_provider(settings, notifier),
        notifier=notifier,
        client=client,
        closers=closers,
    )


def source_provider(settings: ReviewSettings) -> Provider:
    """Repositories and diffs. They are many hosts: one that is down, or asks to be left alone, holds nobody else."""
    return Provider(
        "source",
        timeout_s=settings.fetch_s * 10,
        many_hosts=True,
        retry_after_max_s=settings.retry_ceiling_s,
        hold_max_s=settings.hold_s_max,
    )


def critic_provider(settings: ReviewSettings) -> Provider:
    if settings.openai_base_url:
        return Provider(
            "llm",
            breaker=settings.breaker,
            timeout_s=settings.llm_timeout_s,
            retry_after_max_s=settings.retry_ceiling_s,
            hold_max_s=settings.hold_s_max,
        )
    return Provider("critic", timeout_s=settings.critic_s * 2)


def mail_provider(settings: ReviewSettings, notifier: Notifier) -> Provider:
    """Named after the notifier: what one mail provider was asked to send is never looked up at another."""
    return Provider(
        notifier.name,
        breaker=settings.breaker,
        retry_after_max_s=settings.retry_ceiling_s,
        hold_max_s=settings.hold_s_max,
        timeout_s=settings.mail_s * 2,
        effects=notifier.effects,
        retention_s=FOR_EVER_S if isinstance(notifier, MaildirNotifier) else settings.mail_retention_s,
        late_bound_s=settings.mail_late_s,
        lookup=notifier.lookup if notifier.can_look else None,
        has_id=notifier.has_id if notifier.keeps_ids else None,
    )


def _notifier(settings: ReviewSettings) -> tuple[Notifier, tuple[Callable[[], Awaitable[None]], ...]]:
    if settings.smtp_url:
        smtp = SmtpNotifier.from_urls(
            settings.smtp_url,
            settings.imap_url,
            timeout_s=settings.mail_s,
            imap_keeps_mail=settings.imap_keeps_mail,
        )
        return smtp, ()
    if settings.mail_http_url:
        http = httpx.AsyncClient(follow_redirects=False, verify=trust())
        mail = HttpMailNotifier(
            http,
            settings.mail_http_url,
            settings.mail_http_key or "",
            timeout_s=settings.mail_s,
            lookup_path=settings.mail_http_lookup,
            id_path=settings.mail_http_id_path,
            retention_s=settings.mail_retention_s,
        )
        return mail, (http.aclose,)
    return MaildirNotifier(settings.mail_folder), ()
