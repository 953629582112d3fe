"""The systems' own commands, by name: the help of `holdfast` lists them without importing a system."""

from __future__ import annotations

from holdfast.cli.brought import BroughtCommand

COMMANDS = [
    BroughtCommand(
        "submissions",
        "See learners' submissions; submit failed ones again.",
        "Grading",
        "holdfast_systems.grading.command_line:submissions_cli",
    ),
    BroughtCommand(
        "dlq",
        "See what lies in grading.dlq; send it again or archive it.",
        "Grading",
        "holdfast_systems.grading.command_line:dlq_cli",
    ),
    BroughtCommand(
        "grading",
        "Calibrate the grader by the instructors' reviews.",
        "Grading",
        "holdfast_systems.grading.calibration_commands:grading_cli",
    ),
    BroughtCommand(
        "review",
        "Review a range of a local git repository, mail the review, and print it.",
        "Review",
        "holdfast_systems.review.command_line:review",
    ),
]
