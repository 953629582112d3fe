"""Which statements would stay on one shard of a PostgreSQL that shards, statement by statement.

Every table that grows has a distribution column: the job's id where rows belong to a job, else the key that they are
looked up by. What is global is small, and a reference table on every shard. A statement that names the column goes to
one shard; the others are listed here with the reason. A new statement is one or the other, and says which.

Why so: docs/decisions/0029-shards-are-deployments.md
"""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

from holdfast import tables
from holdfast.stores.statement import Statement, Statements

COLUMNS = {
    "holdfast_jobs": "id",
    "holdfast_job_events": "job_id",
    "holdfast_results": "job_id",
    "holdfast_calls": "job_id",
    "holdfast_answers": "job_id",
    "holdfast_dead_letters": "job_id",
    "holdfast_corrections": "job_id",
    "holdfast_joins": "id",
    "holdfast_effects": "key",
    "holdfast_callbacks": "key",
    "holdfast_idempotency": "key",
    "holdfast_inbox": "message_id",
    "holdfast_outbox": "id",
    "holdfast_tickets": "digest",
    "holdfast_audit": "subject",
    "holdfast_secrets": "owner",
    "holdfast_search": "job_id",
    "holdfast_incident_jobs": "incident_id",
    "holdfast_logs": "job_id",
    "holdfast_replay_letters": "replay_id",
}
REFERENCE = {
    "holdfast_breakers": "a row for each provider",
    "holdfast_provider_use": "a row for each provider",
    "holdfast_breaker_events": "what happened to them",
    "holdfast_schedules": "a row for each schedule",
    "holdfast_workers": "a row for each worker",
    "holdfast_worker_signs": "a row for each worker",
    "holdfast_keepers": "a row for each deployment",
    "holdfast_turns": "a row for each queue that takes turns",
    "holdfast_incidents": "a row for each incident",
    "holdfast_replays": "a row for each replay of a group",
    "holdfast_rollups": "some rows for each minute of thirty days",
    "holdfast_rollup_positions": "two rows",
    "holdfast_pauses": "a row for each kind or queue that was ever paused",
}
# Why a statement asks more than one shard, and which do. The claim is the one of the hot path: a fleet on a sharded
# database claims from its own shard's worker node, or is a deployment of its own (docs/how-to/shard.md).
CROSSING = {
    "the claim looks for the oldest of a lane": (
        "jobs.turn turns.lanes turns.next_keys turns.begun turns.admit lanes.promote lanes.due_ids"
        " lanes.below lanes.below_later"
    ),
    "a relay looks for the oldest message; what it marks afterwards it names by number": (
        "outbox.claim outbox.claim_from outbox.published outbox.refused outbox.release outbox.first_pending"
        " outbox.oldest outbox.first_unpublished"
    ),
    "a key other than the job's id: one used with a job_key, a callback, an effect that several jobs share": (
        "new_jobs.by_key jobs.lock_waiting schedules.is_live effects.hand_over joins.of_stage joins.of_parent"
        " joins.children_of joins.unended joins.outcomes joins.generations callbacks.waiter"
    ),
    "the keeper sweeps: once for all, some hundred rows at a time": (
        "jobs.unpark workers.known workers.expire providers.read_watched callbacks.awaited effects.in_doubt"
        " effects.sample joins.ready joins.left joins.leave leases.expired leases.held_by leases.overdue"
        " leases.renew_owned leases.deserted leases.unanswered incidents.held_for incidents.due_in"
        " incidents.last_answer incidents.join_held incidents.join_dead pauses.release rollups.begin rollups.reach"
        " rollups.read rollups.submitted relocate.queues relocate.bring_home relocate.let_go"
    ),
    "a row that many commits write, found from the newest end of its key": "joins.lock joins.count_down",
    "retention": (
        "jobs.prune jobs.forget answers.prune calls.prune callbacks.prune idempotency.prune inbox.prune"
        " outbox.prune tickets.prune joins.forget incidents.forget_jobs replays.prune_letters"
    ),
    "a person looks or acts: at lists, at counts, at one letter by its own id": (
        "audit.acts_since calls.spending cases.step cases.correct cases.show cases.lock cases.page"
        " cases.groups"
        " effects.page effects.of_job effects.count jobs.page ops.jobs_found"
        " ops.jobs_of_effect"
        " ops.job_ids ops.letter_ids"
        " ops.outbox_page ops.effects_page ops.mark ops.at_risk"
        " ops.messages_aside outbox.lag outbox.of_aggregate depth.doubtful depth.finished_since"
        " depth.dying"
        " depth.in_line depth.later depth.letters depth.parked depth.processing depth.ready depth.standing"
        " depth.waiting search.jobs_matching incidents.jobs_hit incidents.letters_by_minute"
        " search.oldest_searched"
        " pauses.held workers.running schedules.runs replays.enrol replays.troubles"
        " replays.effects_of replays.owners_of replays.letters_of"
    ),
}
LISTED = {name for names in CROSSING.values() for name in names.split()}
_TABLE = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(holdfast_\w+)")
_VIEWS = {
    "holdfast_every_call": "holdfast_calls",
    "holdfast_every_event": "holdfast_job_events",
    "holdfast_workers_now": "holdfast_workers",
    "holdfast_breakers_now": "holdfast_breakers",
    "holdfast_schedules_now": "holdfast_schedules",
}


def statements() -> dict[str, Statement]:
    found: dict[str, Statement] = {}
    for module in pkgutil.iter_modules(tables.__path__):
        sql = getattr(importlib.import_module(f"{tables.__name__}.{module.name}"), "sql", None)
        if isinstance(sql, Statements):
            found |= {f"{module.name}.{name}": each for name, each in sql.named.items() if each.postgres}
    return found


def crosses(text: str) -> set[str]:
    """The tables of a statement whose distribution column it does not name, in any part of a union."""
    parts = [text] if text.startswith("WITH") else re.split(r"\bUNION\b", text)
    used = {(part, _VIEWS.get(table, table)) for part in parts for table in _TABLE.findall(part)}
    return {table for part, table in used if table not in REFERENCE and not names_column(part, table)}


def names_column(text: str, table: str) -> bool:
    column = COLUMNS[table]
    is_written = re.search(rf"INSERT INTO {table} \([^)]*\b{column}\b", text)
    is_compared = re.search(rf"(?<!\w)(?:\w+\.)?{column}\s*(=|IN\b)", text)
    picks_first = re.search(r"IN \(\s*SELECT (?!.{0,60}(jsonb_each|holdfast_breakers))|^WITH ", text, re.DOTALL | re.M)
    is_given = re.search(rf"\bWHERE {column} = (?:CAST\()?\$\d", text)
    return bool(is_written or is_given or (is_compared and not picks_first))


@pytest.mark.spec("K29")
@pytest.mark.parametrize("name", sorted(statements()))
def test_a_statement_names_its_shard_or_is_listed_with_the_reason(name: str) -> None:
    crossed = crosses(statements()[name].postgres)
    if name in LISTED:
        assert crossed, f"{name} stays on one shard now: take it off the list"
    else:
        assert not crossed, f"{name} does not name the distribution column of {sorted(crossed)}"


@pytest.mark.spec("K29")
def test_what_is_listed_exists_and_every_table_is_one_or_the_other() -> None:
    known = statements()
    assert sorted(LISTED - set(known)) == []
    used = {_VIEWS.get(table, table) for each in known.values() for table in _TABLE.findall(each.postgres)}
    assert sorted(used - set(COLUMNS) - set(REFERENCE)) == [] == sorted(set(COLUMNS) & set(REFERENCE))


@pytest.mark.spec("K29")
def test_what_every_attempt_writes_after_its_claim_stays_with_the_job() -> None:
    hot = "leases.renew jobs.claim_one results.put results.of_jobs events.append calls.put answers.put answers.of_stage"
    hot += " effects.mark effects.plan effects.refuse new_jobs.insert new_jobs.insert_one inbox.accept outbox.put"
    assert [name for name in hot.split() if name in LISTED or name not in statements()] == []


@pytest.mark.spec("K29")
def test_no_statement_leaves_the_schema_that_its_deployment_lives_in() -> None:
    """Where a schema is the unit that is placed on a node, all of them, the claim included, stay on one."""
    statistics = {"horizon.holder", "horizon.dead_versions", "outbox.writers"}  # PostgreSQL's own, of the node asked
    for name, each in statements().items():
        qualified = re.findall(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(\w+\.\w+)", each.postgres)
        foreign = re.findall(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(pg_\w+)", each.postgres)
        assert qualified == [], f"{name} names the schema of {qualified}"
        assert foreign == [] or name in statistics, f"{name} reads {foreign}"
