"""Figures and tables, one per file: what runs have recorded goes in, a figure or a table comes out."""
