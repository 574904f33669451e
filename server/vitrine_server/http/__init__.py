"""Parts that every answer shares: errors as problem+json, uploads, limits, headers and the log, counters."""
