"""Information-flow routes: through which tokens, heads and MLPs of a decoder a token of its answer came about."""
