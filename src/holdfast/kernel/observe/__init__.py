"""What the kernel tells the world: log lines, counters, traces, and the report of attempts after their commit."""
