"""The records of an explanation: targets, one session with a model, the trace of its pass, and results."""
