"""The pipeline from an input to an explanation: methods over one trace, the precision of maps, long texts, and abstentions."""
