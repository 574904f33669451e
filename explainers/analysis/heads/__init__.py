"""Heads of a model of images and prompts: what each adds to a similarity, in words what it looks for, and the model without it."""
