"""Explanations and studies in their order: whose turn it is, what each costs, and the threads that have them computed."""
