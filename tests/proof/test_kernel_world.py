"""The kernel under simulated faults: nothing that it promises is broken, and the harness did its work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from holdfast.operator.finding import Violation
from holdfast_proof.command import main
from holdfast_proof.report import SeedReport, Totals
from holdfast_proof.run import reports, run_seed, simulate
from tests.proof.seeds import corpus, first_fresh_seed, keep, told

FAST_SEEDS = 10
FRESH_SEEDS = 150


@pytest.mark.parametrize("seed", corpus("corpus.txt"))
def test_a_seed_that_showed_a_real_bug_does_not_fail_again(seed: int) -> None:
    report = run_seed(seed)
    assert report.findings == [], report.text()


@pytest.mark.fast
@pytest.mark.spec("K1", "K3", "K11", "K12", "K14", "K15")
def test_no_promise_is_broken_under_faults() -> None:
    totals = simulate(FAST_SEEDS, first_seed=0, processes=1)
    assert totals.seeds == FAST_SEEDS and not totals.failed, told(totals)
    assert totals.counts["kills"] > FAST_SEEDS and totals.counts["stalls"] > FAST_SEEDS


@pytest.mark.slow
@pytest.mark.spec("K1", "K2", "K3", "K6", "K7", "K9", "K10", "K11", "K12", "K14", "K15")
def test_no_promise_is_broken_in_fresh_seeds_and_everything_was_seen() -> None:
    totals = simulate(FRESH_SEEDS, first_seed=first_fresh_seed(), processes=1)
    print(totals.text())
    assert totals.seeds == FRESH_SEEDS and not totals.failed, told(totals)
    assert totals.problems() == [], told(totals)


def test_a_seed_has_one_history_in_every_process() -> None:
    program = "from holdfast_proof.run import run_seed; print(*(run_seed(s).hash for s in (3, 11, 42)))"
    answers = set()
    for hash_seed in ("0", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        answers.add(done.stdout.strip())
    run_seed(5)  # another seed before it in the same process changes nothing
    here = " ".join(run_seed(seed).hash for seed in (3, 11, 42))
    assert answers == {here}


def test_a_seed_that_fails_is_in_the_corpus_of_its_system_from_then_on(tmp_path: Path) -> None:
    broken = Violation("S7", "mail did the effect twice,\nas m-1 and m-2.", "j-1")
    (tmp_path / "corpus.txt").write_text("# known\n12 an earlier one\n")
    for system, seed in (("kernel", 10_000_017), ("kernel", 10_000_017), ("kernel", 12), ("releases", 5)):
        keep(SeedReport(seed, system, [broken], "", Counter()), tmp_path)
    kept = (tmp_path / "corpus.txt").read_text().splitlines()
    assert len(kept) == 3 and kept[2].startswith("10000017 ") and "m-1 and m-2" in kept[2]
    assert (tmp_path / "corpus_releases.txt").read_text().startswith("5 ")


def test_two_seeds_have_two_histories() -> None:
    assert run_seed(1).hash != run_seed(2).hash


def test_a_failing_seed_says_how_to_see_it_again_and_tells_the_story_of_the_job() -> None:
    planted = "tests.proof.mutants_jobs:unfenced_reaper"
    report = next(one for one in reports(40, 500_000, "kernel", 1, planted) if one.findings)
    assert f"holdfast simulate --seeds 1 --first-seed {report.seed} --system kernel" in report.text()
    assert any("taken from" in str(finding) for finding in report.findings)
    assert any("claimed" in line for story in report.timelines.values() for line in story)


def test_a_run_that_saw_too_little_says_so() -> None:
    blind = Totals(seeds=1_000)
    assert "No seed of 1000 has seen the failpoint 'claim.after_commit'." in blind.problems()
    assert "Only 0 kills in 1000 seeds." in blind.problems()


def test_the_command_exits_with_one_if_a_promise_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(seeds=2, first_seed=0, system="kernel", as_json=True) == 0
    assert '"violations": 0' in capsys.readouterr().out
