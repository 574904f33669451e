"""Models that the server knows: those that ship, those that visitors open, and where their files lie."""
