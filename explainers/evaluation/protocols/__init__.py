"""The protocols of the papers: each table and figure as data, what measures it, and the table as it is printed."""
