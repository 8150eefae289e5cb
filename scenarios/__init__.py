"""Scenario files, and the one place where the clock and the training meet."""
