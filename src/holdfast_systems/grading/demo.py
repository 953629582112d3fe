"""Grading in `holdfast demo`: three essays over HTTP; an instructor agrees with the grader where it was not sure."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from holdfast.playground.demo_stage import Demo, DemoAccepted, DemoStage, DemoStanding

ESSAYS = (
    "Many people say that working from home is better than working in an office. I agree, because it saves time and "
    "money. However, some workers feel lonely when they do not meet their colleagues. In my opinion, the best solution "
    "is a mixture of both: people could work at home for three days and meet in the office for two.",
    "Last summer I goed to the sea with my family. We was very happy because the weather were good. In the evening we "
    "eat fish in small restaurant and my brother play guitar. I want to go there again in next year.",
    "Although public transport is frequently criticised for its delays, it remains indispensable to any city that "
    "takes its climate commitments seriously. Investment in rail not only reduces congestion but also widens access to "
    "employment, particularly for those who can neither afford nor drive a car.",
)

STANDINGS = {
    "COMPLETED": DemoStanding.DONE,
    "REVIEW_REQUIRED": DemoStanding.WITH_A_PERSON,
    "FAILED": DemoStanding.FAILED,
}


async def play(on: DemoStage) -> list[DemoAccepted]:
    if not any(each.name == "grading-service" for each in on.opened):
        return []
    accepted = [await _submit(on, number, text) for number, text in enumerate(ESSAYS, 1)]
    for each in accepted:
        await on.follow(each, _outcome)
    await _instruct(on)
    return accepted


async def _submit(on: DemoStage, number: int, text: str) -> DemoAccepted:
    payload = {"text": text, "taskType": "essay", "questionId": f"demo-{number}"}
    headers = {"Idempotency-Key": str(uuid4())}
    body = {"skill": "writing", "payload": payload}
    submission = await on.ask("POST", "/api/submissions", json=body, headers=headers)
    return DemoAccepted("grading-main", f"essay {number}", f"/api/submissions/{submission['id']}", _standing)


def _standing(submission: dict[str, Any]) -> DemoStanding:
    return STANDINGS.get(submission["status"], DemoStanding.UNFINISHED)


def _outcome(submission: dict[str, Any]) -> str:
    if _standing(submission) is DemoStanding.WITH_A_PERSON:
        return "[yellow]graded, not surely enough[/]"
    result = submission["result"]
    return f"[green]graded[/] {result['overallScore']}, band {result['band']}"


async def _instruct(on: DemoStage) -> None:
    """What the grader was not sure of, an instructor decides: here, by agreeing with it."""
    waiting = (await on.ask("GET", "/api/instructor/queue"))["items"]
    for submission in waiting:
        url, score = f"/api/submissions/{submission['id']}/review", submission["aiResult"]["overallScore"]
        await on.ask("POST", f"{url}/claim")
        await on.ask("POST", url, json={"overallScore": score})
    if waiting:
        on.say(f"{len(waiting)} essays of which the grader was not sure were decided by an instructor")


# It shows that nothing is lost, not what a grade is worth.
DEMO = Demo(play, settings=lambda folder: {"GRADING_LANGUAGE_MODEL": "off"})
