"""The store, which outlives the process, in SQLite or PostgreSQL: explanations and their images, migrations, copies."""
