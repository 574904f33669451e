"""From an input to an explanation: methods over one trace, how precise maps are, long texts, and when a model does not know."""
