"""Rerun the paper: its tables, its figures, and the numbers that it prints."""
