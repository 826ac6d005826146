"""Read, decode, measure and stream images."""
