"""What the server takes and gives over HTTP and keeps in its store, as pydantic models: a module a subject."""
