"""Reads a declaration of work: what is wrong with it, whether its values fit JSON, where a job stands in it."""
