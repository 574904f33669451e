"""What watching one forward pass tells about a model: its blocks, its tokens, and the token that the head reads."""
