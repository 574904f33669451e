"""How fast things are: run by hand, never by the tests. Seconds are of one machine; the ratios compare within one run."""
