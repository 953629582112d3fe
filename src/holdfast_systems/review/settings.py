"""The settings of the review system: where changes come from, who criticises them, how people are told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast import Breaker, Retry
from holdfast.errors import SettingsError
from holdfast.http.limits import UserLimits
from holdfast.providers.openai_settings import OpenAISettings
from holdfast.providers.outbound import OutboundPolicy
from holdfast.settings import address_problems, database_problems, setting
from holdfast_systems.review.fetch_p4 import P4Policy
from holdfast_systems.review.git_source import GitPolicy
from holdfast_systems.review.imap import parse_imap_url
from holdfast_systems.review.llm_critic import TOKENS_MAX
from holdfast_systems.review.smtp import parse_smtp_url


@dataclass(frozen=True, slots=True)
class ReviewSettings(OpenAISettings):
    """Reviews: sources, critic, notifier, and the retries and breakers of each."""

    database_url: str | None = setting("REVIEW_DATABASE_URL", None, "Database of the review system", secret=True)
    data_dir: str = setting("HOLDFAST_DATA_DIR", "./data", "Everything embedded lives under this folder")
    concurrency: int = setting("REVIEW_CONCURRENCY", 8, "Reviews in flight per process", minimum=1, maximum=1_000)
    per_minute: int = setting(
        "REVIEW_REQUESTS_PER_MINUTE", 600, "Reviews a caller may ask for a minute; 0: any number", minimum=0
    )
    unfinished_max: int = setting(
        "REVIEW_UNFINISHED_MAX", 1_000, "Unfinished reviews a caller may have; 0: any number", minimum=0
    )
    fetch_s: float = setting("REVIEW_FETCH_SEC", 120.0, "Time for each call that fetches a change", minimum=0.01)
    local_roots: str = setting(
        "REVIEW_LOCAL_ROOTS", ".", "Folders whose repositories may be asked for over HTTP, by commas; '' is none"
    )
    private_hosts: str = setting(
        "REVIEW_PRIVATE_HOSTS", "", "Private hosts that diffs and repositories may come from, by ,"
    )
    git_private: bool = setting("REVIEW_GIT_PRIVATE_HOSTS", False, "Repositories on any private host may be cloned")
    p4_depots: str = setting("REVIEW_P4_DEPOTS", "", "Depot paths that may be read, by ,; none: nothing may")
    tokens_max: int = setting("REVIEW_TOKENS_MAX", TOKENS_MAX, "Size of one prompt, in tokens", minimum=500)
    critic_s: float = setting("REVIEW_CRITIC_SEC", 120.0, "Time for each tool of the offline critic", minimum=0.01)
    smtp_url: str | None = setting(
        "SMTP_URL", None, "Mail server; unset with MAIL_HTTP_URL: local Maildir", secret=True
    )
    imap_url: str | None = setting("IMAP_URL", None, "Mailbox with a copy of every mail, to look mails up", secret=True)
    mail_http_url: str | None = setting("MAIL_HTTP_URL", None, "HTTP mail provider (POST /emails)")
    mail_http_key: str | None = setting("MAIL_HTTP_KEY", None, "Key of that provider", secret=True)
    mail_http_lookup: str | None = setting("MAIL_HTTP_LOOKUP_PATH", None, "Its path that finds a mail by ?token=")
    mail_http_id_path: str | None = setting(
        "MAIL_HTTP_ID_PATH", None, "Its path of a mail, such as /emails/{id}; set: sent mails are verified by their id"
    )
    imap_keeps_mail: bool = setting(
        "IMAP_KEEPS_MAIL", False, "Nobody deletes or moves mails in the IMAP mailbox: sent mails are verified there"
    )
    mail_from: str = setting("REVIEW_MAIL_FROM", "holdfast@localhost", "The sender of every review")
    mail_s: float = setting("REVIEW_MAIL_SEC", 30.0, "Time to hand over one mail", minimum=0.01)
    mail_late_s: float = setting("REVIEW_MAIL_LATE_SEC", 60.0, "A mail shows in the mailbox within", minimum=0)
    mail_retention_s: float = setting(
        "REVIEW_MAIL_TOKEN_SEC", 86_400.0, "How long the mail provider remembers what it sent, and its token", minimum=1
    )
    attempts: int = setting("REVIEW_ATTEMPTS", 5, "Attempts of each stage, the first included", minimum=1)
    retry_base_s: float = setting("REVIEW_RETRY_BASE_SEC", 1.0, "Longest wait before the first retry", minimum=0)
    retry_multiplier: float = setting("REVIEW_RETRY_MULTIPLIER", 2.0, "Growth of that wait", minimum=1)
    retry_cap_s: float = setting("REVIEW_RETRY_CAP_SEC", 60.0, "Longest wait that grows by itself", minimum=0)
    retry_ceiling_s: float = setting("REVIEW_RETRY_CEILING_SEC", 300.0, "Longest wait, Retry-After included", minimum=0)
    hold_s_max: float = setting(
        "REVIEW_HOLD_MAX_SEC",
        86_400.0,
        "A provider may put a stage off by 429 or Retry-After for so long in all",
        minimum=1,
    )
    breaker_window: int = setting("REVIEW_BREAKER_WINDOW", 20, "Calls a breaker looks back on", minimum=1)
    breaker_open_above: float = setting(
        "REVIEW_BREAKER_OPEN_ABOVE", 0.5, "Share of failures above which it opens", minimum=0, maximum=0.999
    )
    breaker_cooldown_s: float = setting("REVIEW_BREAKER_COOLDOWN_SEC", 30.0, "Pause once open", minimum=0.01)
    breaker_trials: int = setting("REVIEW_BREAKER_TRIALS", 3, "Good trial calls that close it", minimum=1)
    breaker_in_a_row: int = setting(
        "REVIEW_BREAKER_FAILURES_IN_A_ROW", 10, "Failures in a row that open it too; 0: only the share does", minimum=0
    )
    breaker_window_s: float = setting(
        "REVIEW_BREAKER_WINDOW_SEC", 0.0, "Calls older than this leave its window; 0: none do", minimum=0
    )
    breaker_calls_min: int = setting(
        "REVIEW_BREAKER_MIN_CALLS", 0, "Calls from which the share is judged; 0: a full window", minimum=0
    )
    breaker_growth: float = setting(
        "REVIEW_BREAKER_COOLDOWN_GROWTH", 1.0, "Growth of the pause with each opening in a row, up to 300 s", minimum=1
    )

    def problems(self) -> list[str]:
        """What is wrong although each value alone is fine."""
        found = database_problems("REVIEW_DATABASE_URL", self.database_url) + self.endpoint_problems()
        found += address_problems("MAIL_HTTP_URL", self.mail_http_url)
        if self.smtp_url and self.mail_http_url:
            found.append("SMTP_URL and MAIL_HTTP_URL are both set; mail can go only one way.")
        if self.imap_url and not self.smtp_url:
            found.append("IMAP_URL is set without SMTP_URL; nothing would be looked up.")
        if self.mail_http_id_path and "{id}" not in self.mail_http_id_path:
            found.append("MAIL_HTTP_ID_PATH must name the place of the id, such as /emails/{id}.")
        if self.mail_http_url and not self.mail_http_key:
            found.append("MAIL_HTTP_URL needs MAIL_HTTP_KEY.")
        if self.breaker_calls_min > self.breaker_window:
            found.append("REVIEW_BREAKER_MIN_CALLS must not be more than REVIEW_BREAKER_WINDOW.")
        return found + self._unreadable_mail_urls()

    def _unreadable_mail_urls(self) -> list[str]:
        found: list[str] = []
        for url, parse in ((self.smtp_url, parse_smtp_url), (self.imap_url, parse_imap_url)):
            try:
                if url:
                    parse(url)
            except SettingsError as error:
                found += error.problems
        return found

    def notes(self) -> list[str]:
        """What works, but leaves a risk that its owner should know of."""
        if self.smtp_url and not self.imap_url:
            return [
                "SMTP_URL is set without IMAP_URL: this mail server offers neither token nor lookup, so a mail whose "
                "acceptance is unknown is not sent again and waits for a person. Set IMAP_URL to a mailbox that gets "
                "a copy of every mail (SMTP_URL?archive=address, or a Sent folder)."
            ]
        return []

    @property
    def user_limits(self) -> UserLimits:
        return UserLimits(self.per_minute, self.unfinished_max)

    @property
    def retry(self) -> Retry:
        return Retry(
            attempts=self.attempts,
            base_s=self.retry_base_s,
            multiplier=self.retry_multiplier,
            cap_s=self.retry_cap_s,
            jitter="full",
            ceiling_s=self.retry_ceiling_s,
        )

    @property
    def breaker(self) -> Breaker:
        return Breaker(
            window=self.breaker_window,
            open_above=self.breaker_open_above,
            cooldown_s=self.breaker_cooldown_s,
            cooldown_max_s=max(self.breaker_cooldown_s, 300.0),
            cooldown_growth=self.breaker_growth,
            trials=self.breaker_trials,
            min_calls=self.breaker_calls_min or None,
            failures_in_a_row=self.breaker_in_a_row or None,
            window_s=self.breaker_window_s or None,
        )

    @property
    def changes_folder(self) -> Path:
        return Path(self.data_dir) / "review-changes"

    @property
    def mail_folder(self) -> Path:
        return Path(self.data_dir) / "mail"

    def git_policy(self, *, trusted: bool) -> GitPolicy:
        """`trusted`: a person at this machine's terminal asked, who may read the folder anyway."""
        roots = None if trusted else tuple(_listed(self.local_roots))
        return GitPolicy(
            roots, private_hosts=frozenset(_listed(self.private_hosts)), allow_private_hosts=self.git_private
        )

    @property
    def p4_policy(self) -> P4Policy:
        return P4Policy(tuple(_listed(self.p4_depots)))

    @property
    def outbound(self) -> OutboundPolicy:
        return OutboundPolicy(total_s_max=self.fetch_s, allow_private_hosts=frozenset(_listed(self.private_hosts)))


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
