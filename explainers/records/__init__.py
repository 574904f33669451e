"""What an explanation is made of and asked about: targets, one session with a model, the trace of its pass, and results."""
