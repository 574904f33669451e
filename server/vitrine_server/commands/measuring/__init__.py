"""Commands that measure methods by metrics on data sets: ``vitrine evaluate``, ``reproduce``, ``tables`` and ``metrics-on-truth``."""
