"""The methods: from a trace to one score a token. Each module holds one family."""
