"""Models and what goes with them: wrapping, loading, labels, calibration, tokens; the catalogue."""
