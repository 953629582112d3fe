"""Answers questions about jobs and deployments: why is it not running, how does it stand, what does a deploy leave."""
