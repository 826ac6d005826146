"""Encoders: turn text, or columns of a table, into features; fitted on the training rows only."""
