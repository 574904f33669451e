"""Inputs that rules draw, so that it is known what is in them: scenes, marked scenes, votes and sentences."""
