"""What surrounds every answer: errors as problem+json, uploads, limits, headers and the log, counters."""
