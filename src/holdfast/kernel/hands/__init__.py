"""A person's hand on jobs that a letter's steps (`operate`) do not cover: their place, their input, their pause."""
