"""What Holdfast and the floor do in a round. Called as `python -m bench.runs.holdfast TASK COUNT`."""
