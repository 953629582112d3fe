"""Every statement of the kernel by what dead row versions may cost it: measured, or the reason why it is not."""

from __future__ import annotations

MEASURED = {
    "jobs.turn", "lanes.promote", "lanes.due_ids", "leases.expired", "leases.held_by",
    "leases.renew_owned", "leases.overdue", "leases.unanswered", "jobs.unpark", "jobs.prune", "providers.read_watched",
    "providers.read_every", "providers.names", "outbox.claim", "outbox.published", "outbox.lag",
    "outbox.oldest", "outbox.prune", "inbox.prune", "idempotency.prune", "calls.prune", "answers.prune",
    "effects.in_doubt", "depth.ready", "depth.later", "depth.processing", "depth.waiting", "depth.parked",
    "depth.doubtful", "workers.read_every", "workers.declaring",
    "ops.at_risk", "ops.messages_aside", "ops.audit_page",
    "ops.gates_since", "results.of_jobs", "joins.ready", "joins.left", "callbacks.awaited",
    "callbacks.prune", "incidents.held_for", "incidents.due_in", "incidents.last_answer", "incidents.join_held",
    "incidents.join_dead",
    "providers.read", "providers.read_with_lease", "providers.lock", "providers.used", "providers.count",
    "providers.spend", "providers.set_places", "providers.set_ramp", "keepers.look", "workers.company",
    "keepers.renew", "workers.sign", "workers.own_row",
    "leases.deserted", "pauses.release", "pauses.held", "rollups.reach", "rollups.prune",
    "rollups.lock", "rollups.move", "rollups.position",
    "relocate.queues", "relocate.let_go",
}  # fmt: skip
"""Everything that a worker, a keeper, a relay, a metric or an open console repeats and that looks for rows."""
PAGES = {"ops.mark", "depth.letters", "cases.page", "ops.outbox_page", "ops.effects_page"}
"""As dear as the past of the rows that they show or count, newest first or from a floor on."""
PAGE, VERSIONS_MAX = 50, 15
BEHIND_THEIR_OWN = {
    "keepers.renew", "keepers.look", "workers.sign", "workers.own_row", "workers.company", "workers.read_every",
    "workers.probe_put", "workers.probe_take", "providers.read", "providers.read_with_lease", "providers.lock",
    "providers.swap", "providers.set_not_before", "providers.read_every", "providers.names",
    "providers.read_watched", "rollups.lock", "rollups.move", "rollups.position", "schedules.upcoming",
    "schedules.lock_due", "schedules.advance", "schedules.read_every", "jobs.turn",
    "joins.lock", "joins.count_down", "joins.ready", "joins.move", "joins.grow", "joins.seal",
    "workers.hold", "outbox.claim_from", "outbox.published", "outbox.first_unpublished",
    "replays.due", "replays.upcoming", "replays.mark", "replays.show", "replays.advance",
}  # fmt: skip
"""What looks up or writes a row that is written again and again (test_own_versions.py)."""
EXCUSED = {
    "goes by a key: as dear as that row's own past": {
        "secrets.of_owners", "secrets.forget", "events.last_data", "events.write_success",
        "incidents.follow", "incidents.reopen", "incidents.over",
        "incidents.acknowledge", "incidents.assign", "incidents.close", "incidents.show",
        "incidents.hit", "incidents.jobs_hit", "incidents.letters_by_minute", "incidents.acts_between",
        "jobs.claim_one", "answers.parked", "callbacks.take", "callbacks.is_kept", "callbacks.waiter", "joins.of_stage",
        "joins.generations", "joins.leave", "joins.unended", "joins.outcomes", "joins.outcome_of",
        "joins.of_parent", "joins.parent_of", "joins.children_of", "search.forget",
        "joins.forget", "schedules.pause", "schedules.remove", "schedules.is_live",
        "jobs.take_back", "effects.stage_of", "cases.begin_at",
        "lanes.park", "jobs.lock_one", "jobs.lock_waiting", "jobs.revive",
        "jobs.correct", "jobs.show", "new_jobs.mark_done",
        "new_jobs.by_key", "events.of_job", "events.failed_in_stage", "events.forget", "results.forget",
        "answers.of_stage", "answers.of_job", "answers.restore",
        "answers.forget", "cases.lock_of_job", "cases.context", "cases.refer", "cases.step",
        "cases.correct", "cases.corrections", "cases.show", "cases.lock", "cases.forget", "cases.forget_corrections",
        "effects.lock", "effects.begin", "effects.mark", "effects.backfill", "effects.refuse", "effects.ask",
        "effects.answer", "effects.unsent", "effects.hand_over", "effects.of_job", "calls.of_job", "outbox.refused",
        "outbox.release", "idempotency.read", "idempotency.answer",
        "tickets.redeem", "ops.case_of_job",
        "places.set_priority", "places.run_now", "places.remove", "logs.of_job", "logs.forget",
        "users.lock", "results.of_job", "results.clear", "results.clear_stages",
    },
    "letters of one group or of one replay, while a person looks": {
        "replays.enrol", "replays.progress", "replays.troubles",
        "replays.effects_of", "replays.costs_of", "replays.results_of", "replays.owners_of", "replays.letters_of",
        "replays.prune_letters",
    },
    "of a queue that its code has left: once for each job, in batches": {"relocate.bring_home"},
    "only inserts": {
        "replays.begin",
        "logs.put", "turns.open", "secrets.put", "search.put", "callbacks.put", "incidents.open",
        "joins.begin", "effects.begin_new", "new_jobs.insert", "new_jobs.insert_one",
        "events.append", "events.append_once", "results.put",
        "answers.put", "cases.open", "cases.keep_correction", "effects.plan", "calls.put", "calls.put_again",
        "outbox.put", "inbox.accept",
        "idempotency.reserve", "tickets.put", "audit.write", "providers.ensure", "providers.begin_use", "providers.log",
        "schedules.ensure", "keepers.begin", "workers.first_sign", "workers.introduce",
    },
    "a table of a few rows": {
        "keepers.release", "keepers.owners", "keepers.release_owned", "keepers.forget",
        "pauses.put", "pauses.read_every", "pauses.of_job", "pauses.is_paused", "workers.drain",
        "rollups.begin", "workers.started_since",
        "incidents.begun_between", "ops.gate_changes",
        "turns.lock", "incidents.live", "ops.incident_ids", "incidents.page", "incidents.forget",
        "incidents.forget_jobs",
        "replays.pause", "replays.resume", "replays.stop",
        "replays.page", "replays.ids", "replays.prune",
        "workers.gone", "workers.forget_signs",
    },
    "the look from the bottom itself: a twentieth of the time": {
        "lanes.below", "lanes.below_later", "outbox.first_pending",
    },
    "what people did in the last hour, by an index of its own over rows that are only inserted": {"audit.acts_since"},
    "the newest ten thousand events, and their jobs": {"depth.finished_since"},
    "what has ended since the last fold, and its jobs, from a remembered position on": {
        "rollups.read", "rollups.submitted",
    },
    "a minute's own cells, written some times each": {
        "rollups.add", "rollups.put", "rollups.between", "rollups.usual_age", "rollups.fold_hour",
    },
    "measured by themselves (test_own_versions.py)": {"leases.held", "leases.renew"},
    "measured by themselves (test_turns_flat.py)": {
        "turns.lanes", "turns.next_keys", "turns.admit", "turns.begun", "depth.in_line",
    },
    "the newest ten thousand letters of a quarter of an hour": {"depth.dying"},
    "leases that have not run out, when a process begins: as many as there were in a minute": {
        "workers.known", "workers.expire",
    },
    "PostgreSQL's own statistics, and its locks": {"horizon.holder", "horizon.dead_versions", "outbox.writers"},
    "asked for by a person, or by a command": {
        "jobs.page", "jobs.forget", "depth.standing", "providers.history",
        "cases.groups", "effects.count", "effects.page", "effects.sample",
        "calls.spending", "outbox.requeue",
        "outbox.of_aggregate", "ops.jobs_found", "ops.jobs_of_effect", "ops.aggregate_of", "ops.job_ids",
        "ops.letter_ids", "ops.states_of",
        "search.jobs_matching", "search.oldest_searched", "workers.running", "schedules.runs",
        "audit.of_subject", "providers.lift_gate",
    },
    "as many as people open consoles": {"tickets.prune"},
}  # fmt: skip
