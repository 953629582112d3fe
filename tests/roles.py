"""The roles of a deployment of the library and the three systems."""

from __future__ import annotations

ROLES = ("learner", "instructor", "operator", "service", "viewer")
