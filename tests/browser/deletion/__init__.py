"""The deletion test and the editing of words."""
