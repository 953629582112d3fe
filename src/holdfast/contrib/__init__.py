"""Holdfast in the company of other libraries: each module needs the library of its name, and nothing else does."""
