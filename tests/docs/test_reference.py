"""The reference pages are what the code says; `make docs` writes them anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.http import metrics
from holdfast.main import load_systems
from holdfast.settings import Settings, describe

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


@pytest.mark.slow
def test_the_reference_pages_are_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/reference", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nRun `make docs`."


def test_every_setting_and_metric_is_on_its_page() -> None:
    settings, listed = ((REFERENCE / name).read_text() for name in ("settings.md", "metrics.md"))
    groups = [Settings, *(group for system in load_systems() for group in system.settings)]
    assert [env for group in groups for env, _, _ in describe(group) if f"| `{env}` |" not in settings] == []
    assert [name for name, _, _ in metrics.COUNTERS.values() if f"`{name}_total`" not in listed] == []


@pytest.mark.parametrize(
    "code", ["DEADLINE_EXCEEDED", "POISON_JOB", "AUDIO_TOO_LONG", "DOCUMENT_DAMAGED", "LLM_TIMEOUT"]
)
def test_codes_are_found_wherever_the_code_makes_them(code: str) -> None:
    """Beside a category, as a default, handed to a function, in a table, in a return."""
    assert f"`{code}`" in (REFERENCE / "error-codes.md").read_text()


@pytest.mark.parametrize(
    ("code", "category"),
    [("DEADLINE_EXCEEDED", "bug_or_config"), ("DISCARDED", "policy_reject"), ("SETTLE_FAILED", "bug_or_config")],
)
def test_a_class_that_a_decision_gives_has_its_category(code: str, category: str) -> None:
    assert f"| `{code}` | `{category}` |" in (REFERENCE / "error-codes.md").read_text()
