"""Test-time registers: the neurons that make outlier tokens in a Vision Transformer, and the model without such tokens.

Jiang, Dravid, Efros & Gandelsman, Vision Transformers Don't Need Trained Registers, NeurIPS 2025, arXiv 2506.08010.
"""
