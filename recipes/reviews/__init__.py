"""Film reviews and sentences made by rules: what ``reviews-bert`` learns from and is asked about."""
