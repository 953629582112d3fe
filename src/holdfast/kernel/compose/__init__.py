"""Work made of other work: checkpoints, children, waits and the caller's own rows in a stage's commit."""
