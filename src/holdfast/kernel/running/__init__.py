"""Runs stages: on the loop without a task, in threads, in processes, or in lockstep with a test."""
