"""The methods: from a trace to one score a token. A module holds methods that compute alike; its family each method declares itself."""
