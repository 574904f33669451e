"""Commands about models and methods as such: ``vitrine models``, ``methods``, ``open``, ``depth`` and ``registers``."""
