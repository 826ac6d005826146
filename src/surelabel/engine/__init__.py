"""Executes what methods describe."""
