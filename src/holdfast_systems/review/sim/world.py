"""The review system under simulated faults: the production app and tables, on virtual time.

Workers and keepers run the stages; callers ask for versions, again, wrongly and at once; operators replay the dead
from the failed stage or in full while results come in, cancel, and answer what only a person can. The source, the
model and the mail provider (of a class drawn per seed) fail in every way that `provider_stub` knows; processes die and
stall at every await of send-and-mark.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from sqlite3 import OperationalError
from typing import Any

from holdfast.engines.run import Duties, run
from holdfast.errors import StoreError, UsageError
from holdfast.kit import Kernel, Registry
from holdfast.kit.repair import correct, operate
from holdfast.operator.finding import Violation
from holdfast_proof.chaos import FAULT_KINDS
from holdfast_proof.coverage import PROVIDER_FAULTS, Coverage
from holdfast_proof.history import AcceptedJob, RunHistory
from holdfast_proof.operator import Operator
from holdfast_proof.world import Main, SimWorld
from holdfast_systems.review import reviews
from holdfast_systems.review.jobs import review_app
from holdfast_systems.review.reviews import ReviewRefusal
from holdfast_systems.review.sim.checks import check_reviews, tally_of
from holdfast_systems.review.sim.engine import BAD_MAILBOX, MAIL, NO_ADDRESS, STUBS, engine_of, good_answer
from holdfast_systems.review.sim.orders import ReviewWish, draw_wishes

APPS = {mail: review_app(engine_of(mail)) for mail in MAIL}
REPLAYS_MAX = 3
CORRECTS = 0.4
CORRECTED = "eve@mail.test"
OPERATOR_RESTS_AFTER_MS = 240_000
SURELY_OVER_MS = 170_000
GARBAGE: tuple[dict[str, Any], ...] = (
    {"content": "I think that this is fine."},
    {"content": '{"summary": 7, "findings": []}'},
    {"content": None},
    {"content": None, "refusal": "I cannot help with that."},
)
WATCHED = {
    "review": (
        "INSERT ON reviews",
        "new.job_id",
        "new.changelist_id, new.review_version, new.idempotency_key, new.fingerprint, new.id",
    ),
    "review_end": ("UPDATE OF status ON reviews", "new.job_id", "old.status, new.status"),
    "chunk": ("INSERT ON review_chunks", "new.review_id", "new.chunk_no, new.chunk_sha256"),
    "chunk_again": ("UPDATE ON review_chunks", "new.review_id", "new.chunk_no, new.chunk_sha256"),
}
DOUBTFUL = (
    "SELECT 1 FROM holdfast_effects WHERE status IN ('sending', 'unknown') OR (status = 'sent' AND provider_id IS NULL)"
)
TAKEN_BACK = (
    "SELECT 1 FROM reviews AS r JOIN review_deliveries AS d ON d.changelist_id = r.changelist_id "
    "AND d.review_version = r.review_version LEFT JOIN holdfast_effects AS e ON e.key = d.effect_key "
    "WHERE r.status = 'succeeded' AND d.required = 1 AND (d.status <> 'sent' OR e.status <> 'sent')"
)
SENT = (
    "SELECT d.effect_key FROM reviews AS r JOIN review_deliveries AS d ON d.changelist_id = r.changelist_id "
    "AND d.review_version = r.review_version WHERE r.status = 'succeeded' AND d.required = 1 AND d.status = 'sent' "
    "ORDER BY d.effect_key"
)
ELSEWHERE = ("intake.", "relay.", "submit.", "sweep.")
COVERAGE = Coverage(
    # No messages here, and a review has no deadline; jobs are submitted within the review's own transaction.
    failpoints=frozenset(name for name in Coverage().failpoints if not name.startswith(ELSEWHERE)),
    faults=(FAULT_KINDS | PROVIDER_FAULTS) - {"broker_restart"},
    edges=frozenset(
        {
            *("queued -> processing", "processing -> queued", "processing -> succeeded", "processing -> dead"),
            *("dead -> queued", "queued -> cancelled", "processing -> cancelled"),
        }
    ),
    seen=frozenset(
        {
            *(f"mail by {mail}" for mail in MAIL),
            *("answer new", "answer known", "answer known otherwise", "answer RERUN_NOT_ASKED"),
            *("answer REVIEW_VERSION_LOWER", "answer REVIEW_VERSION_TAKEN"),
            *("delivery sent", "delivery failed", "delivery needs_person"),
            *("death in fetch", "death in llm", "death in notify"),
            *("replay in full", "replay of fetch", "replay of llm", "replay of notify"),
            *("escalation", "kept part", "call by a process that had been paused", "mail lost and told again"),
            *("recipient corrected",),
        }
    ),
)


class ReviewWorld(SimWorld):
    """One seed of the review system."""

    system = "review"
    databases = {"main": [APPS["token"]]}  # noqa: RUF012
    stubs = STUBS
    watched = {"main": WATCHED}  # noqa: RUF012
    coverage = COVERAGE

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.mail = self.loop.stream("mail class").choice(sorted(MAIL))
        self.registries = {"main": Registry([APPS[self.mail]])}
        self.wishes = draw_wishes(self.loop.stream("wishes"), self.swarm.faults_s)
        self.fetched: dict[str, int] = {}
        self.posted: dict[str, set[str]] = {}
        self._critic = self.loop.stream("critic")
        self._garbage = self._critic.choice((0.0, 0.0, 0.1, 0.4))
        self._person = Operator(self.dice, replays_max=REPLAYS_MAX, puts_off=0.4, in_full=0.3)
        self._first_job: dict[str, str] = {}
        self.lost_mails = 0
        self.corrections = 0

    def cast(self) -> None:
        if self.dice.random() < 0.25:
            for number in range(self.dice.randint(1, 2)):
                self.role(f"all-{number}", _duties(Duties(relay=False, consume=False, concurrency=4, grace_s=5)))
        else:
            work = Duties(relay=False, consume=False, keep=False, concurrency=4, grace_s=5)
            for number in range(self.dice.randint(1, 3)):
                self.role(f"worker-{number}", _duties(work))
            for number in range(self.dice.choice((1, 1, 2))):
                self.role(f"keeper-{number}", _duties(Duties(work=False, relay=False, consume=False)))
        self.role("caller", self.caller)
        self.role("operator", self.operator)
        if self.mail == "both" and self.dice.random() < 0.4:
            self.loop.world.spawn(self._lose_a_mail(), name="lost mail")

    def is_quiet(self) -> bool:
        answered = all(wish.answer for wish in self.wishes)
        return answered and self.mostly_quiet() and not self.query(DOUBTFUL) and not self.query(TAKEN_BACK)

    def judge(self, history: RunHistory) -> list[Violation]:
        return list(check_reviews(self, history))

    def tally(self, history: RunHistory) -> Mapping[str, int]:
        return tally_of(self, history)

    def visible(self, database: str) -> str:
        rows = self.query("SELECT title || coalesce(result, '') || coalesce(error, '') FROM reviews ORDER BY id")
        return super().visible(database) + "\n".join(str(row[0]) for row in rows)

    def critic_says(self, path: str) -> dict[str, Any]:
        """The model's message: what was asked for, or rubbish."""
        drawn = self._critic.random()
        rubbish = not self.is_healing and drawn < self._garbage
        return self._critic.choice(GARBAGE) if rubbish else good_answer(path)

    async def _lose_a_mail(self) -> None:
        """What was marked turns out never to have been sent: no trace of it at the provider, no id in the ledger."""
        stub, keeper = self.providers[f"mail.{self.mail}"], self.arenas["main"].keeper
        while not self.is_healing and not self.lost_mails:
            await asyncio.sleep(self.dice.uniform(10, 90))
            sent = self.query(SENT)
            if not sent:
                continue
            key = self.dice.choice(sent)[0]
            with suppress(OperationalError):  # somebody is writing; later, then
                keeper.execute("UPDATE holdfast_effects SET provider_id = NULL WHERE key = ?", (key,))
                token = self.query("SELECT token FROM holdfast_effects WHERE key = ?", key)[0][0]
                stub.effects[:] = [effect for effect in stub.effects if effect.token != token]
                stub._first.pop(token, None)
                self.answered[token] = self.loop.now_ms  # no doubt is left about the first send: it did nothing
                self.lost_mails += 1

    # The callers

    async def caller(self, kernel: Kernel, stop: asyncio.Event) -> None:
        """Ask for what is due, at once and again until there is an answer. An error may have been a success."""
        while not stop.is_set():
            due = [wish for wish in self.wishes if wish.answer is None and wish.at_ms <= self.loop.now_ms]
            if due:
                await asyncio.gather(*[self._ask(kernel, wish) for wish in due])
            upcoming = [wish.at_ms for wish in self.wishes if wish.answer is None]
            wait_ms = max(1_000, min(upcoming, default=self.loop.now_ms + 600_000) - self.loop.now_ms)
            await asyncio.sleep(wait_ms / 1_000)

    async def _ask(self, kernel: Kernel, wish: ReviewWish) -> None:
        """What the route does."""
        request, job = wish.request, None
        wish.asked_ms = self.loop.now_ms
        try:
            async with kernel.store.transaction() as tx:
                answer = await reviews.submit(kernel, tx, request, sender="reviews@mail.test", owner="ci")
                stored = answer.stored
                await reviews.deliveries(tx, stored.changelist_id, stored.review_version)
            # A review that is told again has another job; the caller's is the first.
            job = self._first_job.setdefault(stored.id, stored.job_id)
            said = "new" if answer.is_new else "known otherwise" if answer.body_differs else "known"
            self.accepted.append(
                AcceptedJob(self.loop.now_ms, reviews.KIND, request.idempotency_key, stored.fingerprint, job)
            )
        except ReviewRefusal as refusal:
            said = refusal.code
        except StoreError:
            return
        wish.answer, wish.answered_ms, wish.job = said, self.loop.now_ms, job

    # The operator

    async def operator(self, kernel: Kernel, stop: asyncio.Event) -> None:
        """Work the dead letters while results come in, replay with two clicks, cancel, answer doubts."""
        while not stop.is_set():
            await asyncio.sleep(self.dice.uniform(8, 40))
            if self.healed_ms is not None and self.loop.now_ms > self.healed_ms + OPERATOR_RESTS_AFTER_MS:
                await asyncio.sleep(600)
                continue
            try:
                await self._work_cases(kernel)
                await self._answer_doubts(kernel)
                if self.dice.random() < 0.03 and not self.is_healing:
                    await self._cancel_one(kernel)
            except (StoreError, UsageError):
                continue

    async def _work_cases(self, kernel: Kernel) -> None:
        letters = self.query("SELECT id, job_id, state FROM holdfast_dead_letters ORDER BY id")
        for letter in letters:
            if letter["state"] in ("open", "escalated", "triaged") and self.dice.random() < CORRECTS:
                await self._correct_recipient(kernel, letter["id"], letter["job_id"])
        await self._person.work_cases(kernel, letters)

    async def _correct_recipient(self, kernel: Kernel, case_id: str, job_id: str) -> None:
        """Put an address that can be mailed in the place of one that cannot; perhaps only look at the difference."""
        payload = self.query("SELECT payload FROM holdfast_jobs WHERE id = ?", job_id)[0][0]
        asked = json.loads(payload).get("recipients", [])
        for number, one in enumerate(asked):
            if one["address"] in (BAD_MAILBOX, NO_ADDRESS):
                values = {f"recipients.{number}.address": CORRECTED}
                dry_run = self.dice.random() < 0.3
                with suppress(UsageError):  # somebody replayed it meanwhile
                    await correct(kernel, case_id, actor="operator", values=values, dry_run=dry_run)
                    self.corrections += not dry_run
                return

    async def _answer_doubts(self, kernel: Kernel) -> None:
        rows = self.query("SELECT key, token, provider FROM holdfast_effects WHERE status = 'review' ORDER BY key")
        some = [row for row in rows if not self.done_by(row[2], row[1]) or self.dice.random() < 0.5]
        over = self.healed_ms is not None and self.loop.now_ms > self.healed_ms + SURELY_OVER_MS
        await self._person.answer_doubts(kernel, some, self.done_by, self.is_unsent if over else None)

    async def _cancel_one(self, kernel: Kernel) -> None:
        live = self.query("SELECT id FROM holdfast_jobs WHERE state IN ('queued', 'processing') ORDER BY id")
        if live:
            await operate.cancel(kernel, self.dice.choice(live)["id"], "operator")


def _duties(duties: Duties) -> Main:
    async def main(kernel: Kernel, stop: asyncio.Event) -> None:
        await run(kernel, duties, stop)

    return main
