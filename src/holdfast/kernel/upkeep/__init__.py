"""What a deployment does beside its jobs: prune, schedule, raise floors, check the schema, let keys take turns."""
