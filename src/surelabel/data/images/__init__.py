"""Images from encoded files or bytes to inputs, decoded once and cached or streamed."""
