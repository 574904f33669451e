"""Commands about one input of a model, such as ``vitrine explain``, ``deletion-test``, ``regions``, ``interaction`` and ``heads``."""
