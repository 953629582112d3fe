"""Every planted bug: what must catch it, and within how many seeds (several times the mean)."""

from __future__ import annotations

from tests.proof import mutants_effects, mutants_jobs, mutants_world
from tests.proof.plant import Mutant

MUTANTS = (
    Mutant(mutants_effects.mark_before_send, ("S6",), 60),
    Mutant(mutants_effects.attempt_in_token, ("S9",), 20),
    Mutant(mutants_effects.lookup_too_early, ("S7", "S8"), 600, shown_by=185),
    Mutant(mutants_effects.resend_without_proof, ("S7", "S8"), 200),
    Mutant(mutants_effects.doubt_forgotten, ("S7", "S8", "S20"), 60),
    Mutant(mutants_jobs.unfenced_completion, ("S2", "S3", "S4", "crash"), 60),
    Mutant(mutants_jobs.unfenced_attempt, ("S4",), 600, shown_by=128),
    Mutant(mutants_jobs.unfenced_reaper, ("S5",), 40),
    Mutant(mutants_jobs.progress_unfenced, ("S4",), 600, shown_by=156),
    Mutant(mutants_jobs.sweep_touches_the_ended, ("S2", "S3"), 40),
    Mutant(mutants_jobs.late_result_flips_state, ("S15",), 600, shown_by=79),
    Mutant(mutants_jobs.attempt_spent_while_open, ("S12", "S14"), 60),
    Mutant(mutants_jobs.trial_calls_spend_budgets, ("S12",), 200),
    Mutant(mutants_jobs.failures_that_opened_it_stay_spent, ("S12",), 600),
    Mutant(mutants_jobs.rate_limits_spend_budgets, ("S12", "S13"), 200),
    Mutant(mutants_jobs.budget_shared_by_stages, ("S12",), 60),
    Mutant(mutants_jobs.crashes_not_counted, ("S12", "L1"), 60),
    Mutant(mutants_jobs.retry_after_ignored, ("S13",), 60),
    Mutant(mutants_jobs.retry_after_lost_in_replay, ("S13",), 600, shown_by=73),
    Mutant(mutants_jobs.replay_from_the_first_stage, ("S3", "S19"), 60),
    Mutant(mutants_world.ack_before_commit, ("S16", "S18"), 20),
    Mutant(mutants_world.no_inbox, ("S17",), 20),
    Mutant(mutants_world.published_before_confirmed, ("S16",), 20),
    Mutant(mutants_world.outbox_outside_the_transaction, ("S16",), 200),
    Mutant(mutants_world.early_callback_dropped, ("S18",), 60),
    Mutant(mutants_world.trial_permit_leaked, ("L1",), 600),
    Mutant(mutants_world.open_breaker_ignored, ("S13", "S14"), 600),
    Mutant(mutants_world.key_conflict_ignored, ("S1",), 60),
    Mutant(mutants_world.keys_dropped, ("S1",), 20),
    Mutant(mutants_world.secrets_in_events, ("S21",), 20),
    Mutant(mutants_world.answered_before_commit, ("S1",), 60),
    Mutant(mutants_world.unguarded_provider_called_early, ("S13",), 600),
    Mutant(mutants_world.retry_after_not_kept_in_the_process, ("S13",), 600),
    Mutant(mutants_world.refusal_wipes_out_doubt, ("S20",), 600),
    Mutant(mutants_world.late_results_tell, ("S16",), 600, shown_by=272),
    Mutant(mutants_effects.nobody_waits, ("S22",), 200),
    Mutant(mutants_effects.keys_joined, ("S6",), 200),
    Mutant(mutants_effects.evidence_not_asked_for, ("S6",), 20),
    Mutant(mutants_world.paused_before_the_send, ("S4", "S7", "S8"), 600, shown_by=308),
)
