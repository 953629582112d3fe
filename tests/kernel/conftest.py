"""Every test here runs on both databases; see tests/kernel/places.py."""

from tests.kernel.places import clock, deploy, place, postgres_database, store

__all__ = ["clock", "deploy", "place", "postgres_database", "store"]
