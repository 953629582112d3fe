"""Settings: frozen values read once from the environment, each with a default, a unit in its name and a sentence.

A group of settings is a dataclass whose fields are made by `setting`. `read` gives the group; `problems` gives every
complaint about an environment at once, so that `holdfast check` can print them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import urlsplit

from holdfast.kernel.kernel import Tuning
from holdfast.settings.addresses import address_problems
from holdfast.settings.values import setting
from holdfast.stores.connecting import DATABASE_FORMS, POSTGRES, Connecting, Pooler, plain_url, url_problem
from holdfast.transports.addresses import split_addresses

KEY_LENGTH_MIN = 32


@dataclass(frozen=True, slots=True)
class Settings:
    """What every process of Holdfast needs. Systems read their own groups beside it."""

    database_url: str | None = setting("DATABASE_URL", None, "Database of jobs: sqlite:///path or postgresql://...")
    connections: int = setting(
        "HOLDFAST_DATABASE_CONNECTIONS",
        4,
        "Connections of a process to each PostgreSQL database, at most; the listener has one more",
        minimum=2,
        maximum=100,
    )
    pooler: str = setting(
        "HOLDFAST_POOLER",
        "auto",
        "What lies before PostgreSQL; auto: a pooler that is noticed is taken to pool by transaction",
        choices=tuple(Pooler),
    )
    pooler_prepares: bool = setting(
        "HOLDFAST_POOLER_PREPARES", False, "The pooler carries prepared statements in transaction mode"
    )
    listen_url: str | None = setting(
        "HOLDFAST_LISTEN_URL",
        None,
        "PostgreSQL's own address where a pooler lies before it, for LISTEN and migrations; without a database in it: "
        "that of each database URL",
        secret=True,
    )
    read_only_url: str | None = setting(
        "HOLDFAST_READ_ONLY_URL",
        None,
        "A replica for whoever only looks: lists, audit and serve --read-only; without a database in it: that of each "
        "database URL",
        secret=True,
    )
    data_dir: str = setting("HOLDFAST_DATA_DIR", "./data", "Everything embedded lives under this folder")
    rabbitmq_url: str | None = setting(
        "RABBITMQ_URL",
        None,
        "Broker; several addresses of a cluster with commas between them; unset: in-process transport",
        secret=True,
    )
    rabbitmq_queue_type: str = setting(
        "RABBITMQ_QUEUE_TYPE", "classic", "Type of the queues that are declared", choices=("classic", "quorum")
    )
    rabbitmq_publisher: str = setting(
        "RABBITMQ_PUBLISHER",
        "fast",
        "How messages are written: in one piece a turn, past the driver's own publish, or plainly by that",
        choices=("fast", "plain"),
    )
    message_keys: str = setting(
        "HOLDFAST_MESSAGE_KEYS",
        "",
        "Keys that sign messages, by commas, 32 characters or more each: the first signs, all are accepted",
        secret=True,
    )
    secrets_keys: str = setting(
        "HOLDFAST_SECRETS_KEYS",
        "",
        "Keys that encrypt credentials of given addresses, by commas, 32 characters or more each: the first encrypts, "
        "all decrypt",
        secret=True,
    )
    host: str = setting("HOLDFAST_HOST", "127.0.0.1", "Address the HTTP server listens on")
    port: int = setting("HOLDFAST_PORT", 8000, "Port the HTTP server listens on", minimum=0, maximum=65535)
    engine: str = setting("HOLDFAST_ENGINE", "asyncio", "What runs jobs", choices=("asyncio", "celery"))
    env: str = setting("HOLDFAST_ENV", "development", "production refuses failpoints and made-up secrets")
    jwt_secret: str | None = setting("HOLDFAST_JWT_SECRET", None, "HS256 secret of bearer tokens", secret=True)
    jwks_url: str | None = setting("HOLDFAST_JWKS_URL", None, "Where to fetch the keys of bearer tokens instead")
    jwt_audience: str | None = setting("HOLDFAST_JWT_AUDIENCE", None, "The audience a token must name, if any")
    oidc_issuer: str | None = setting(
        "HOLDFAST_OIDC_ISSUER", None, "OpenID Connect provider that people sign in with; it must describe itself there"
    )
    oidc_client_id: str | None = setting("HOLDFAST_OIDC_CLIENT_ID", None, "The name under which it knows this server")
    oidc_client_secret: str | None = setting(
        "HOLDFAST_OIDC_CLIENT_SECRET", None, "Its secret, if it gave one", secret=True
    )
    oidc_scope: str = setting("HOLDFAST_OIDC_SCOPE", "openid profile email", "What it is asked for")
    oidc_name_claim: str = setting("HOLDFAST_OIDC_NAME_CLAIM", "sub", "The claim that names a person, for the audit")
    oidc_roles_claim: str = setting("HOLDFAST_OIDC_ROLES_CLAIM", "roles", "The claim with roles or groups; a.b: b in a")
    oidc_roles: str = setting(
        "HOLDFAST_OIDC_ROLES", "", "Roles by groups, by commas: admins=operator, *=viewer; unset: groups are roles"
    )
    connections_max: int = setting(
        "HOLDFAST_CONNECTIONS_MAX", 2_000, "Connections the HTTP server holds at once; more are answered 503", minimum=1
    )
    header_s: float = setting("HOLDFAST_HEADER_SEC", 10.0, "Time a client has to send a request's header", minimum=0.05)
    body_s: float = setting(
        "HOLDFAST_BODY_SEC", 20.0, "Time to send a body, and a second more for each 16 KiB that came", minimum=0.05
    )
    keep_alive_s: float = setting(
        "HOLDFAST_KEEP_ALIVE_SEC", 15.0, "An idle connection is closed after", minimum=0.05, maximum=3_600
    )
    requests_per_user: float = setting(
        "HOLDFAST_REQUESTS_PER_USER_SEC",
        100.0,
        "Requests a user may send to a process per second, ten seconds' worth at once; 0: any number",
        minimum=0,
    )
    requests_per_address: float = setting(
        "HOLDFAST_REQUESTS_PER_ADDRESS_SEC",
        300.0,
        "The same for an address, of requests without a valid token; 0: any number",
        minimum=0,
    )
    streams_max: int = setting(
        "HOLDFAST_STREAMS_MAX", 1_000, "Event streams of a process; more are answered 429; 0: any number", minimum=0
    )
    streams_per_user: int = setting(
        "HOLDFAST_STREAMS_PER_USER", 50, "Event streams of one user in a process; 0: any number", minimum=0
    )
    trusted_proxies: str = setting(
        "HOLDFAST_TRUSTED_PROXIES", "127.0.0.1", "Addresses whose X-Forwarded-For is believed, by commas"
    )
    log_format: str = setting("HOLDFAST_LOG_FORMAT", "json", "Log lines", choices=("json", "text"))
    log_level: str = setting(
        "HOLDFAST_LOG_LEVEL", "INFO", "How much is logged", choices=("DEBUG", "INFO", "WARNING", "ERROR")
    )
    failpoints: str = setting("HOLDFAST_FAILPOINTS", "", "Tests only: places where the process signals itself")
    metrics_port: int = setting(
        "HOLDFAST_METRICS_PORT", 0, "Port of a worker's /metrics; 0: none", minimum=0, maximum=65535
    )
    lease_s: float = setting("WORKER_LEASE_TTL_SEC", 60.0, "How long a claim is held unless renewed", minimum=1)
    renew_s: float = setting("HOLDFAST_RENEW_SEC", 20.0, "How often leases are renewed", minimum=0.1)
    concurrency: int = setting("WORKER_CONCURRENCY", 50, "Jobs in flight per worker process", minimum=1, maximum=5000)
    grace_s: float = setting("HOLDFAST_GRACE_SEC", 20.0, "How long SIGTERM waits for jobs in flight", minimum=0)
    blocked_say_s: float = setting(
        "HOLDFAST_BLOCKED_SEC", 1.0, "An event loop that is blocked for longer is logged, with its stack", minimum=0.05
    )
    blocked_max_s: float = setting(
        "HOLDFAST_BLOCKED_MAX_SEC", 600.0, "How long the leases of a blocked event loop are kept", minimum=1
    )
    poll_s: float = setting("HOLDFAST_POLL_SEC", 1.0, "Safety net of the wake-ups: look for work", minimum=0.01)
    keeper_s: float = setting(
        "HOLDFAST_KEEPER_SEC",
        15.0,
        "One process sweeps for all; one that dies is replaced after this, or half a lease if that is shorter",
        minimum=0.5,
    )
    reap_s: float = setting("HOLDFAST_REAP_SEC", 5.0, "How often expired leases are taken back", minimum=0.05)
    sweep_ms: int = setting("TIMEOUT_CHECK_INTERVAL_MS", 60_000, "How often deadlines are checked", minimum=10)
    outbox_poll_ms: int = setting("OUTBOX_POLL_INTERVAL_MS", 5_000, "Safety net of the relay", minimum=10)
    outbox_batch: int = setting("OUTBOX_BATCH_SIZE", 50, "Messages per relay round", minimum=1, maximum=5000)
    outbox_lease_s: float = setting(
        "OUTBOX_LEASE_SEC", 30.0, "How long a relay may take to publish a batch before another one does", minimum=0.1
    )
    outbox_stale_ms: int = setting("OUTBOX_STALE_THRESHOLD_MS", 60_000, "Older messages are warned about", minimum=1)
    verify_s: float = setting(
        "HOLDFAST_VERIFY_SEC",
        60.0,
        "How often some of what is marked as sent is verified",
        minimum=0.05,
    )
    verify_batch: int = setting(
        "HOLDFAST_VERIFY_BATCH", 5, "Effects of each provider that a process verifies then; 0: none", minimum=0
    )
    auto_migrate: str = setting(
        "HOLDFAST_AUTO_MIGRATE",
        "auto",
        "Migrates too: auto, holdfast up, and work on a new SQLite file; true, whatever starts work; false, nothing",
        choices=("auto", "true", "false"),
    )
    migrate_lock_s: float = setting(
        "HOLDFAST_MIGRATE_LOCK_SEC",
        1.0,
        "How long a migration may hold up others, waiting for locks",
        minimum=0.01,
    )
    migrate_wait_s: float = setting(
        "HOLDFAST_MIGRATE_WAIT_SEC", 300.0, "How long a migration keeps trying to get its locks", minimum=0.01
    )
    value_bytes_max: int = setting(
        "HOLDFAST_VALUE_BYTES_MAX",
        4_194_304,
        "The largest input, result, checkpoint, answer or message that a job may carry",
        minimum=1,
    )
    public_url: str | None = setting(
        "HOLDFAST_PUBLIC_URL", None, "Where holdfast serve is reached from outside, for callback URLs"
    )
    callback_secret: str | None = setting(
        "HOLDFAST_CALLBACK_SECRET", None, "Signs callback URLs; 32 characters or more", secret=True
    )
    retention_days: float = setting("HOLDFAST_RETENTION_DAYS", 30.0, "How long finished jobs are kept", minimum=0.0001)

    def problems(self) -> list[str]:
        """What is wrong although each value alone is fine."""
        return [
            *(f"{problem} (WORKER_LEASE_TTL_SEC, HOLDFAST_RENEW_SEC)" for problem in self.tuning().problems()),
            *self._address_problems(),
            *self._engine_problems(),
            *self._production_problems(),
            *self._key_problems(),
            *self._oidc_problems(),
        ]

    def _address_problems(self) -> list[str]:
        found = [*database_problems("DATABASE_URL", self.database_url), *broker_problems(self.rabbitmq_url)]
        for name, url in (("HOLDFAST_LISTEN_URL", self.listen_url), ("HOLDFAST_READ_ONLY_URL", self.read_only_url)):
            if url is not None and (url_problem(url) or urlsplit(plain_url(url)).scheme not in POSTGRES):
                found.append(f"{name} must be postgresql://user@host/name.")
        found += address_problems("HOLDFAST_PUBLIC_URL", self.public_url)
        return found + address_problems("HOLDFAST_JWKS_URL", self.jwks_url)

    def _engine_problems(self) -> list[str]:
        if self.engine != "celery":
            return []
        found = [] if self.rabbitmq_url else ["HOLDFAST_ENGINE is celery, which needs RABBITMQ_URL."]
        if find_spec("celery") is None:
            found.append("HOLDFAST_ENGINE is celery, which is not installed: install holdfast[celery].")
        return found

    def _production_problems(self) -> list[str]:
        if self.env != "production":
            return []
        found = []
        if self.failpoints:
            found.append("HOLDFAST_FAILPOINTS is for tests; unset it where HOLDFAST_ENV is production.")
        if not (self.jwt_secret or self.jwks_url):
            found.append("HOLDFAST_ENV is production: set HOLDFAST_JWT_SECRET or HOLDFAST_JWKS_URL.")
        return found

    def _key_problems(self) -> list[str]:
        found = []
        if self.callback_secret is not None and len(self.callback_secret) < 32:
            found.append("HOLDFAST_CALLBACK_SECRET is too short: 32 characters or more.")
        keys = (("HOLDFAST_MESSAGE_KEYS", self.signing_keys), ("HOLDFAST_SECRETS_KEYS", self.sealing_keys))
        for name, given in keys:
            if any(len(key) < KEY_LENGTH_MIN for key in given):
                found.append(f"Each key in {name} must have at least {KEY_LENGTH_MIN} characters.")
        if self.sealing_keys and find_spec("cryptography") is None:
            found.append("HOLDFAST_SECRETS_KEYS needs the package cryptography: pip install 'holdfast[http]'.")
        if self.jwt_secret is not None and len(self.jwt_secret) < 32:
            found.append("HOLDFAST_JWT_SECRET must have at least 32 characters.")
        return found

    def _oidc_problems(self) -> list[str]:
        if self.oidc_issuer is None:
            return []
        if found := address_problems("HOLDFAST_OIDC_ISSUER", self.oidc_issuer):
            return found
        there = urlsplit(self.oidc_issuer)
        if there.scheme != "https" and there.hostname not in ("127.0.0.1", "::1", "localhost"):
            found.append("HOLDFAST_OIDC_ISSUER must start with https://.")
        if not self.oidc_client_id:
            found.append("HOLDFAST_OIDC_ISSUER needs HOLDFAST_OIDC_CLIENT_ID.")
        if self.jwks_url:
            found.append("HOLDFAST_OIDC_ISSUER gives tokens of our own, which HOLDFAST_JWKS_URL does not accept.")
        if any(not group or not role for group, role in self.oidc_groups):
            found.append("HOLDFAST_OIDC_ROLES must be group=role, by commas.")
        return found

    @property
    def oidc_groups(self) -> tuple[tuple[str, str], ...]:
        """Which group has which role."""
        parts = [text.rpartition("=") for text in _listed(self.oidc_roles)]
        return tuple((group.strip(), role.strip()) for group, _, role in parts)

    @property
    def signing_keys(self) -> tuple[str, ...]:
        return _listed(self.message_keys)

    @property
    def sealing_keys(self) -> tuple[str, ...]:
        return _listed(self.secrets_keys)

    def notes(self) -> list[str]:
        """What works, but leaves a risk."""
        found = []
        if self.rabbitmq_url and not self.signing_keys:
            found.append(
                "HOLDFAST_MESSAGE_KEYS is not set: whoever may publish to the broker can forge requests and callbacks."
            )
        if not self.sealing_keys:
            found.append(
                "HOLDFAST_SECRETS_KEYS is not set: query strings of given addresses are stored unencrypted while their "
                "job lives, and addresses with a password are refused."
            )
        return found

    def connecting(self) -> Connecting:
        return Connecting(self.connections, Pooler(self.pooler), self.pooler_prepares, self.listen_url)

    def tuning(self) -> Tuning:
        return Tuning(
            lease_s=self.lease_s,
            renew_s=min(self.renew_s, self.lease_s / 3),
            poll_s=self.poll_s,
            keeper_s=min(self.keeper_s, self.lease_s / 2),
            reap_s=self.reap_s,
            sweep_s=self.sweep_ms / 1_000,
            verify_s=self.verify_s,
            verify_batch=self.verify_batch,
            relay_poll_s=self.outbox_poll_ms / 1_000,
            relay_batch=self.outbox_batch,
            relay_lease_s=self.outbox_lease_s,
            outbox_stale_s=self.outbox_stale_ms / 1_000,
            retention_s=self.retention_days * 86_400,
            migrate_lock_s=self.migrate_lock_s,
            migrate_wait_s=self.migrate_wait_s,
            blocked_say_s=self.blocked_say_s,
            blocked_max_s=self.blocked_max_s,
        )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def broker_problems(url: str | None) -> list[str]:
    try:
        split_addresses(url or "amqp://localhost")
    except ValueError as error:
        return [f"RABBITMQ_URL {error}."]
    return []


def database_problems(name: str, url: str | None) -> list[str]:
    problem = None if url is None else url_problem(url)
    return [f"{name} {problem}; it must be {DATABASE_FORMS}."] if problem else []
