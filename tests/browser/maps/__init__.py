"""How a map is drawn and looked at."""
