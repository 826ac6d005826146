"""Figures that the report and the paper share."""
