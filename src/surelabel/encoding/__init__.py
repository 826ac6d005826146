"""Encoders: turn text, columns of a table or images into fixed features."""
