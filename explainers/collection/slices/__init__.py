"""Slices: reasons that many wrong or doubtful rows of a collection share, searched in one half of its rows and tested in the other."""
