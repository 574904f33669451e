"""Vitrine on a cluster of Ray: Ray Serve runs the processes, the store in PostgreSQL has all that they share."""
