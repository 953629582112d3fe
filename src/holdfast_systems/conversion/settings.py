"""The settings of the conversion system: the knobs of its source by their own names, then what it adds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from holdfast import Breaker, Retry
from holdfast.http.limits import UserLimits
from holdfast.providers.outbound import OutboundPolicy
from holdfast.settings import address_problems, database_problems, setting
from holdfast_systems.conversion.embedded import Limits
from holdfast_systems.sandbox.probe import weaknesses

NO_CAP_S = 86_400.0
GATEWAY_SCHEMES = ("http", "https", "grobid+http", "grobid+https")
PROBES_EVERY_S = 1.0  # the kernel's own rhythm of probing a held provider


@dataclass(frozen=True, slots=True)
class ConversionSettings:
    """One group for the web process and the workers: both need the folders, and most of the rest is shared."""

    database_url: str | None = setting("DATABASE_URL", None, "Database of conversions", secret=True)
    data_dir: str = setting("HOLDFAST_DATA_DIR", "./data", "Everything embedded lives under this folder")
    gateway_url: str | None = setting(
        "GATEWAY_URL", None, "Converter: http(s)://host/path or grobid+http(s)://host; unset: embedded", secret=True
    )
    uploads_dir: str | None = setting("UPLOADS_DIR", None, "Where PDFs wait; unset: uploads in the data folder")
    results_dir: str | None = setting("RESULTS_DIR", None, "Where XML is kept; unset: results in the data folder")
    attempts_max: int = setting("RETRY_MAX_ATTEMPTS", 3, "Attempts in all, the first included", minimum=1, maximum=100)
    retry_base_ms: int = setting("RETRY_BASE_DELAY_MS", 5_000, "Wait before the first retry; it doubles", minimum=0)
    retry_jitter_ms: int = setting("RETRY_JITTER_MAX_MS", 5_000, "Random addition to each wait, at most", minimum=0)
    lease_s: float = setting("WORKER_LEASE_TTL_SEC", 60.0, "How long a claim is held unless renewed", minimum=1)
    gateway_timeout_ms: int = setting("GATEWAY_TIMEOUT_MS", 120_000, "One conversion may take", minimum=1)
    gateway_hold_s_max: float = setting(
        "GATEWAY_HOLD_MAX_SEC", 3_600.0, "A gateway may put a document off for so long in all", minimum=1
    )
    concurrency: int = setting("WORKER_CONCURRENCY", 2, "Conversions in flight per process", minimum=1, maximum=5_000)
    circuit_window: int = setting("CIRCUIT_WINDOW", 20, "Gateway calls that the breaker looks back on", minimum=1)
    circuit_fail_threshold: float = setting(
        "CIRCUIT_FAIL_THRESHOLD", 0.5, "Share of failures from which dispatch pauses", minimum=0.001, maximum=1
    )
    circuit_cooldown_ms: int = setting(
        "CIRCUIT_COOLDOWN_MS", 5_000, "How long the gateway must look well before dispatch resumes", minimum=1
    )
    circuit_in_a_row: int = setting(
        "CIRCUIT_FAILURES_IN_A_ROW", 10, "Failures in a row that pause dispatch too; 0: only the share does", minimum=0
    )
    circuit_window_s: float = setting(
        "CIRCUIT_WINDOW_SEC", 0.0, "Gateway calls older than this leave the window; 0: none do", minimum=0
    )
    circuit_calls_min: int = setting(
        "CIRCUIT_MIN_CALLS", 0, "Gateway calls from which the share is judged; 0: a full window", minimum=0
    )
    upload_bytes_max: int = setting(
        "UPLOAD_BYTES_MAX", 100 << 20, "Largest PDF that is accepted", minimum=1, maximum=1 << 40
    )
    result_bytes_max: int = setting(
        "RESULT_BYTES_MAX", 64 << 20, "Largest XML that is accepted", minimum=1, maximum=1 << 40
    )
    pages_max: int = setting("CONVERTER_PAGES_MAX", 2_000, "Most pages the embedded converter takes", minimum=1)
    memory_bytes_max: int = setting(
        "CONVERTER_MEMORY_BYTES_MAX", 512 << 20, "Memory of one embedded conversion", minimum=64 << 20, maximum=1 << 40
    )
    cpu_s_max: int = setting("CONVERTER_CPU_SEC_MAX", 18, "Processor time of one embedded conversion", minimum=1)
    wall_s_max: float = setting("CONVERTER_WALL_SEC_MAX", 25.0, "One embedded conversion may take", minimum=0.1)
    result_retention_s: float = setting("RESULT_RETENTION_SEC", 604_800.0, "A result is kept for", minimum=0.001)
    source_retention_s: float = setting(
        "SOURCE_RETENTION_SEC", 86_400.0, "A failed job's PDF is kept for a retry for", minimum=0
    )
    orphan_grace_s: float = setting(
        "ORPHAN_GRACE_SEC", 3_600.0, "Files that belong to no job are removed after", minimum=1
    )
    expiry_check_s: float = setting("EXPIRY_CHECK_SEC", 60.0, "How often expired files are looked for", minimum=0.05)
    queued_max_per_user: int = setting(
        "USER_QUEUED_MAX", 100, "Unfinished uploads a user may have; 0: any number", minimum=0
    )
    uploads_max_per_minute: int = setting(
        "USER_UPLOADS_PER_MINUTE", 60, "Uploads a user may make a minute; 0: any number", minimum=0
    )
    webhook_secret: str | None = setting(
        "WEBHOOK_SECRET", None, "Signs webhooks (at least 24 characters); unset: no webhooks", secret=True
    )
    webhook_attempts_max: int = setting("WEBHOOK_MAX_ATTEMPTS", 8, "Deliveries tried per event", minimum=1)
    webhook_timeout_ms: int = setting("WEBHOOK_TIMEOUT_MS", 10_000, "One delivery may take", minimum=1)
    webhook_private_hosts: str = setting(
        "WEBHOOK_PRIVATE_HOSTS", "", "Private hosts that webhooks may reach, with commas between"
    )

    def problems(self) -> list[str]:
        """What is wrong although each value alone is fine."""
        found = database_problems("DATABASE_URL", self.database_url)
        found += address_problems("GATEWAY_URL", self.gateway_url, GATEWAY_SCHEMES)
        if self.webhook_secret is not None and len(self.webhook_secret) < 24:
            found.append("WEBHOOK_SECRET must have at least 24 characters.")
        if self.uploads.absolute() == self.results.absolute():
            found.append("UPLOADS_DIR and RESULTS_DIR must be two folders.")
        if self.circuit_calls_min > self.circuit_window:
            found.append("CIRCUIT_MIN_CALLS must not be more than CIRCUIT_WINDOW.")
        return found

    def notes(self) -> list[str]:
        """How strong the sandbox is on this system, where the embedded converter is used."""
        return [] if self.gateway_url else weaknesses()

    @property
    def uploads(self) -> Path:
        return Path(self.uploads_dir or Path(self.data_dir) / "uploads")

    @property
    def results(self) -> Path:
        return Path(self.results_dir or Path(self.data_dir) / "results")

    @property
    def gateway_timeout_s(self) -> float:
        return self.gateway_timeout_ms / 1_000

    @property
    def user_limits(self) -> UserLimits:
        return UserLimits(self.uploads_max_per_minute, self.queued_max_per_user)

    @property
    def limits(self) -> Limits:
        return Limits(self.pages_max, self.memory_bytes_max, self.cpu_s_max, self.result_bytes_max, self.wall_s_max)

    @property
    def retry(self) -> Retry:
        return Retry(
            attempts=self.attempts_max,
            base_s=self.retry_base_ms / 1_000,
            multiplier=2.0,
            jitter="additive",
            jitter_max_s=self.retry_jitter_ms / 1_000,
            cap_s=NO_CAP_S,
        )

    @property
    def webhook_retry(self) -> Retry:
        return Retry(attempts=self.webhook_attempts_max, base_s=5, multiplier=3, cap_s=3_600, ceiling_s=3_600)

    @property
    def breaker(self) -> Breaker:
        """Holds the queue; as many good probes in a row as fill the cooldown let it go."""
        return Breaker(
            mode="hold",
            window=self.circuit_window,
            open_above=self.circuit_fail_threshold,
            inclusive=True,
            min_calls=self.circuit_calls_min or None,
            failures_in_a_row=self.circuit_in_a_row or None,
            window_s=self.circuit_window_s or None,
            cooldown_s=self.circuit_cooldown_ms / 1_000,
            trials=max(1, math.ceil(self.circuit_cooldown_ms / 1_000 / PROBES_EVERY_S)),
        )

    @property
    def outbound(self) -> OutboundPolicy:
        hosts = frozenset(host.strip() for host in self.webhook_private_hosts.split(",") if host.strip())
        return OutboundPolicy(
            bytes_max=64 << 10,
            total_s_max=self.webhook_timeout_ms / 1_000,
            connect_s_max=min(10.0, self.webhook_timeout_ms / 1_000),
            redirects_max=0,
            allow_private_hosts=hosts,
        )
