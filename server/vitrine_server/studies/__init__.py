"""Studies: questions about a finished explanation, on exactly its input: tokens removed, words put in, layers, mixed rules."""
