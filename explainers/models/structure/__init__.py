"""The structure of a model, found by watching one forward pass: its blocks, its tokens, and the token that the head reads."""
