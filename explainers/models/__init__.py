"""Models and what goes with them: preprocessing, token layout, words; the catalogue."""
