"""Commands about the server and its store: ``vitrine serve``, ``backup``, ``restore`` and ``recover``."""
