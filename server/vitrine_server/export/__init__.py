"""A finished explanation to take along: bundle, file names, and the lines that reproduce it."""
