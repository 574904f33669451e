"""Models and what goes with them: wrapping, loading, labels, calibration, tokens and their removal; the catalogue."""
