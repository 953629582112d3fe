"""How seldom a process of ours looks for cyclic garbage, and at what.

Python looks at every young object after each 700 that were made and not let go. Attempts under way hold thirty to sixty
each, so that a worker would look at them all again and again and find that they are in use: a fifth of its CPU where
jobs wait for effects. So it looks once as many are there beyond that, and never at what it was loaded with.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

PYTHONS_OWN = (700, 10, 10)
OBJECTS_OF_A_JOB = 50


@contextmanager
def collect_seldom(jobs_at_once: int) -> Iterator[None]:
    """To be entered once everything is loaded, in a process that is ours. Who has set thresholds keeps them; whoever
    leaves has the former ones again."""
    former = gc.get_threshold()
    gc.collect()
    gc.freeze()
    if former == PYTHONS_OWN:
        gc.set_threshold(former[0] + OBJECTS_OF_A_JOB * jobs_at_once, *former[1:])
    try:
        yield
    finally:
        gc.set_threshold(*former)
        gc.unfreeze()
