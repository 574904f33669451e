"""The routes under ``/api``, and ``/healthz``, ``/readyz`` and ``/metrics``. Each module serves one subject and has its ``router``."""
