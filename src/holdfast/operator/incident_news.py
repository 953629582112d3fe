"""Tells somebody about incidents, by webhook or mail: each piece of news is a job, so that it goes out exactly once.

The jobs are of the app `incidents`, which every process carries. Where nobody is to be told it declares no job, and
`tell` writes nothing. A process that keeps but does not work runs these jobs all the same (`engines.run`): "no worker"
could reach nobody else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel

from holdfast import App, Context, Job, Provider, Retry, stage
from holdfast.kernel.kernel import Kernel
from holdfast.kernel.questions.explain import iso
from holdfast.kernel.submit import prepare, submit_in
from holdfast.settings import address_problems, setting
from holdfast.stores.seam import Tx

APP = "incidents"
WEBHOOK, MAIL = f"{APP}.webhook", f"{APP}.mail"
PATIENT = Retry(attempts=12, base_s=5, multiplier=2, cap_s=600, jitter="full")
SEND_S = 20.0
WORDS = {"opened": "Incident", "reopened": "Incident, back again", "worse": "Incident, now a page", "over": "Over"}
Link = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class IncidentSettings:
    """Who is told about incidents."""

    webhook_url: str | None = setting(
        "HOLDFAST_INCIDENT_WEBHOOK_URL",
        None,
        "Where incidents are POSTed to as JSON; its `text` suits Slack and Mattermost",
        secret=True,
    )
    webhook_secret: str | None = setting(
        "HOLDFAST_INCIDENT_WEBHOOK_SECRET", None, "Signs what is POSTed, as Standard Webhooks ask", secret=True
    )
    mail_to: str = setting("HOLDFAST_INCIDENT_MAIL_TO", "", "Addresses that are told about incidents, by commas")
    mail_from: str = setting("HOLDFAST_INCIDENT_MAIL_FROM", "holdfast@localhost", "The sender of these mails")
    smtp_url: str = setting(
        "HOLDFAST_INCIDENT_SMTP_URL",
        "smtp://127.0.0.1:25",
        "Server of these mails: smtp:// (STARTTLS where it offers it) or smtps://, with user:password@ if it asks",
        secret=True,
    )
    severity: str = setting(
        "HOLDFAST_INCIDENT_TELL", "page", "From which severity on somebody is told", choices=("page", "ticket")
    )

    def problems(self) -> list[str]:
        found = address_problems("HOLDFAST_INCIDENT_WEBHOOK_URL", self.webhook_url)
        servers = self.smtp_url if self.mail_to else None
        return found + address_problems("HOLDFAST_INCIDENT_SMTP_URL", servers, ("smtp", "smtps"))

    @property
    def recipients(self) -> list[str]:
        return [address.strip() for address in self.mail_to.split(",") if address.strip()]


class News(BaseModel):
    """What became of an incident, as it was when it happened."""

    event_id: str
    incident_id: str
    event: str
    severity: str
    sentence: str
    at: int

    @property
    def headline(self) -> str:
        return f"{WORDS[self.event]}: {self.sentence}"


class IncidentApp(App):
    """The app that carries the news; `severity` is from which on somebody is told."""

    severity: str = "page"


def declare_incidents(settings: IncidentSettings, link: Link, schema: str | None = None) -> IncidentApp:
    """The app for these settings. `link` gives the address of an incident's page, if it is known."""
    app = IncidentApp(APP, schema=schema)
    app.severity = settings.severity
    if settings.webhook_url is not None:
        _declare_webhook(app, settings, settings.webhook_url, link)
    if settings.recipients:
        _declare_mail(app, settings, link)
    return app


async def tell(kernel: Kernel, tx: Tx, id: str, event: str, severity: str, sentence: str, now: int) -> None:
    """Order the news in the transaction of what happened, once per incident, event and moment."""
    app = next((app for app in kernel.registry.apps if isinstance(app, IncidentApp)), None)
    if app is None or (app.severity == "page" and severity != "page"):
        return
    event_id = f"{id}/{event}/{now}"
    news = News(event_id=event_id, incident_id=id, event=event, severity=severity, sentence=sentence, at=now)
    for kind in app.kinds.values():
        order = prepare(kind, news, job_id=kernel.new_id(), now=now, key=event_id)
        await submit_in(tx, [order], now, kernel.watch)


def _declare_webhook(app: App, settings: IncidentSettings, url: str, link: Link) -> None:
    provider = Provider("incident-webhook", effects="token", timeout_s=SEND_S)

    @app.job(name=WEBHOOK)
    class Webhook(Job[News]):
        @stage(provider=provider, retry=PATIENT)
        async def deliver(self, ctx: Context, news: News) -> None:
            from holdfast.providers.outbound import OutboundPolicy
            from holdfast.providers.webhook import send_notice, signed

            body = json.dumps(_body(news, link))

            async def send(token: str) -> str:
                secret = settings.webhook_secret
                headers = signed(secret, token, ctx.now() // 1_000, body) if secret else {"webhook-id": token}
                # Whoever runs Holdfast gave the address: it may well lie in their own network.
                policy = OutboundPolicy(total_s_max=SEND_S, allow_private=True)
                return await send_notice(url, body, headers, policy, ctx.now())

            await ctx.effect(("incident-webhook", news.event_id), send=send)


def _body(news: News, link: Link) -> dict[str, str | None]:
    url = link(news.incident_id)
    return {
        "type": f"incident.{news.event}",
        "id": news.incident_id,
        "severity": news.severity,
        "at": iso(news.at),
        "sentence": news.sentence,
        "url": url,
        "text": f"{news.headline} {url or ''}".strip(),
    }


def _declare_mail(app: App, settings: IncidentSettings, link: Link) -> None:
    provider = Provider("incident-mail", effects="neither", timeout_s=SEND_S)

    @app.job(name=MAIL)
    class Mail(Job[News]):
        @stage(provider=provider, retry=PATIENT)
        async def deliver(self, ctx: Context, news: News) -> None:
            async def send(token: str) -> str:
                message = _mail(news, settings, link, token)
                await asyncio.to_thread(send_mail, settings.smtp_url, message)
                return str(message["Message-ID"])

            await ctx.effect(("incident-mail", news.event_id), send=send)


def _mail(news: News, settings: IncidentSettings, link: Link, token: str) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = news.headline if len(news.headline) <= 150 else f"{news.headline[:149]}…"
    message["Date"] = datetime.fromtimestamp(news.at / 1_000, UTC)
    message["From"] = settings.mail_from
    message["To"] = ", ".join(settings.recipients)
    message["Message-ID"] = f"<{token}@holdfast>"
    message.set_content("\n\n".join(filter(None, [news.headline, iso(news.at), link(news.incident_id)])))
    return message


def send_mail(url: str, message: EmailMessage) -> None:
    """Hand one mail to the server; what it refuses is an `SMTPException`. TLS wherever the server has it."""
    import smtplib  # only where mails are sent: most processes never do
    import ssl

    parts = urlsplit(url)
    is_tls = parts.scheme == "smtps"
    host, port = parts.hostname or "localhost", parts.port or (465 if is_tls else 25)
    context = ssl.create_default_context()
    opened = (
        smtplib.SMTP_SSL(host, port, timeout=SEND_S, context=context)
        if is_tls
        else smtplib.SMTP(host, port, timeout=SEND_S)
    )
    with opened as server:
        if not is_tls:
            server.ehlo()
            if server.has_extn("starttls"):
                server.starttls(context=context)
        if parts.username:
            server.login(unquote(parts.username), unquote(parts.password or ""))
        server.send_message(message)
