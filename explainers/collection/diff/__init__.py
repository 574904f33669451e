"""The comparison of two models, or of two checkpoints of one, on the same inputs: which answers and which reasons changed."""
