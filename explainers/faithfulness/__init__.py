"""Is it true? Tokens are taken away in the order of a map, and the model is asked again."""
