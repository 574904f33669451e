"""Worlds in which it is known what an answer comes from: which metrics put methods and controls in the order of the truth."""
