"""What outlives the process, in SQLite or PostgreSQL: explanations and their images, the steps from older tables, copies."""
