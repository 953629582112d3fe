"""Every test here that touches a database runs on both; see tests/kernel/places.py."""

from tests.kernel.places import clock, deploy, place, postgres_database, store

__all__ = ["clock", "deploy", "place", "postgres_database", "store"]
