"""What is asked of a finished explanation, on exactly its input: tokens taken away, words put in, layers, mixed rules."""
