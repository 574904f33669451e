"""Readers that turn pictures, texts and molecules into the tensors of a model."""
