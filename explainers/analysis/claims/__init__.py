"""Claims: sentences about the parts that a map puts first, with an error that holds exactly, however long was drawn."""
