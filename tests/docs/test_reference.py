"""The reference pages are what the code says; `make docs` writes them anew."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.kernel.observe.counters import COUNTERS
from holdfast.main import load_systems
from holdfast.settings import Settings
from holdfast.settings.celery import CelerySettings
from holdfast.settings.names import describe

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
SPELT_LIKE_A_CODE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
# Spelt like codes, and none: other programs' variables, a name in the source, an option's variable (on the CLI's page),
# and a submission's status (in the contract).
NO_CODES = re.compile(
    r"(GIT|SSL|SSH|OTEL|COMP|LC|NO|OPENBLAS|OMP|MKL|CGO)_\w+|HTTPS_PROXY|CONSOLE_URL|EMAIL_MASK|"
    r"HOLDFAST_(APP|TOKEN|URL)|REVIEW_REQUIRED"
)
REHEARSALS = ("holdfast_proof/", "holdfast/testing/", "holdfast/demo")


@pytest.mark.slow
def test_the_reference_pages_are_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/reference", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nRun `make docs`."


def test_every_setting_and_metric_is_on_its_page() -> None:
    settings, listed = ((REFERENCE / name).read_text() for name in ("settings.md", "metrics.md"))
    groups = [Settings, CelerySettings, *(group for system in load_systems() for group in system.settings)]
    assert [env for group in groups for env, _, _ in describe(group) if f"| `{env}` |" not in settings] == []
    counters = [*COUNTERS, *(counter for system in load_systems() for counter in system.counters)]
    assert [counter.name for counter in counters if f"`holdfast_{counter.name}_total`" not in listed] == []


@pytest.mark.parametrize(
    "code", ["DEADLINE_EXCEEDED", "POISON_JOB", "AUDIO_TOO_LONG", "DOCUMENT_DAMAGED", "LLM_TIMEOUT"]
)
def test_codes_are_found_wherever_the_code_makes_them(code: str) -> None:
    """Beside a category, as a default, handed to a function, in a table, in a return."""
    assert f"`{code}`" in (REFERENCE / "error-codes.md").read_text()


def test_whatever_is_spelt_like_a_code_is_on_a_page() -> None:
    """However the code is made, and whether or not the pages' writer knows that way of making it."""
    failures = REFERENCE.parent / "explanation" / "what-a-failure-means.md"
    told = "".join(page.read_text() for page in [failures, *REFERENCE.glob("*.md")])
    untold = {
        f"{name}: {text}"
        for name, text in _texts_in_the_source()
        if SPELT_LIKE_A_CODE.fullmatch(text) and not NO_CODES.fullmatch(text) and f"`{text}`" not in told
    }
    assert sorted(untold) == []


def _texts_in_the_source() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "src").rglob("*.py")):
        name = path.relative_to(ROOT / "src").as_posix()
        if not name.startswith(REHEARSALS) and path.parent.name != "sim":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield name, node.value


@pytest.mark.parametrize(
    ("code", "category"),
    [
        ("CALLBACK_OVERDUE", "bug_or_config"),
        ("DEADLINE_EXCEEDED", "bug_or_config"),
        ("DISCARDED", "policy_reject"),
        ("SETTLE_FAILED", "bug_or_config"),
    ],
)
def test_a_class_that_a_decision_gives_has_its_category(code: str, category: str) -> None:
    assert f"| `{code}` | `{category}` |" in (REFERENCE / "error-codes.md").read_text()
