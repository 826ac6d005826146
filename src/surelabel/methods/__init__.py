"""Training methods, one file each; the file's name is the method's name, and nothing else has to be edited."""
