"""How far ahead a job is leased that has run for long.

A lease is renewed three times in its length. Each time its row is written, and behind a held snapshot every version is
checked against all before it. So the lease of what has run for long goes ahead of the time by a share of that: 2,000
renewals, eleven hours of them, write some forty versions. Until when the worker holds it is what the worker's sign of
life says, which is written with every renewal: when that is over, the job is taken back, however far ahead its lease
goes. Code that does not know of this sees a lease that lasts, and takes back that much later what a lost worker left.
"""

from __future__ import annotations

LONG = 8
"""Leases after which an attempt has run for long."""
AHEAD = 3
"""Leases that are left at least: one for the worker's own time, and two in which the job is found to be deserted."""
SHARE = 4
"""The part of the time that an attempt has run by which its lease goes further."""


def is_long(ran_ms: int, lease_ms: int) -> bool:
    return ran_ms >= LONG * lease_ms


def is_due(left_ms: int, lease_ms: int) -> bool:
    """Whether a long lease has to be written again."""
    return left_ms < AHEAD * lease_ms


def ahead_ms(ran_ms: int, lease_ms: int) -> int:
    """How long a long lease is from now on."""
    return AHEAD * lease_ms + ran_ms // SHARE
