"""Commands about many inputs of a model: ``vitrine summarise``, ``collect``, ``diff`` and ``slices``."""
