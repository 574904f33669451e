"""Tables of methods and metrics: over any number of runs, and as text for papers, pages and programs."""
