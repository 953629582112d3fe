"""What other libraries offer on their apps, and where it is here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.given import nearest

WAYS_OUT = (
    (("task", "actor", "register", "workflow", "function"), "declare a job with @app.job() above a class."),
    (("stage",), "write @stage() with `from holdfast import stage`."),
    (
        ("enqueue", "enqueue_many", "send", "send_task", "submit", "delay", "defer", "put", "add_job"),
        "write enqueue(connection, Job, input), or open a Client.",
    ),
    (
        ("run", "start", "work", "worker", "run_worker", "serve", "main"),
        "a worker is run by `holdfast worker --app module:app`.",
    ),
    (("periodic", "cron", "scheduled", "beat", "every"), "write app.schedule(cron, Job, input)."),
)


class PointsAtNames:
    """An object that answers a name that it does not have with the one that was meant."""

    if not TYPE_CHECKING:  # else every name would pass

        def __getattr__(self, name: str) -> object:
            names = [each for each in dir(type(self)) if not each.startswith("_")]
            meant = next((way_out for words, way_out in WAYS_OUT if name in words), None)
            if meant is None and not name.startswith("_") and (near := nearest(name, names)):
                meant = f"did you mean '{near}'?"
            raise AttributeError(f"An {type(self).__name__} has no '{name}'{f'; {meant}' if meant else '.'}")
