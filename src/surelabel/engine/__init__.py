"""Executes the training that methods describe."""
