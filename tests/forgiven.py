"""Prints the tests that failed in the last run: those that get a second chance, and are forgiven if they use it."""

from __future__ import annotations

import json
from pathlib import Path

LAST_FAILED = Path(__file__).resolve().parents[1] / ".pytest_cache/v/cache/lastfailed"

if __name__ == "__main__":
    print("\n".join(json.loads(LAST_FAILED.read_text()) if LAST_FAILED.exists() else ()))
