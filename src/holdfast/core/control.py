"""What a person on call may order of many jobs at once, in the words that the console, the API and the CLI share."""

from __future__ import annotations

from typing import Literal

Action = Literal["cancel", "replay", "priority", "run_now", "delete"]
"""What is done to every job that fits a query."""
Sort = Literal["kind", "queue"]
"""What can be paused."""
