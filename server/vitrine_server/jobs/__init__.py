"""Work on its way: what was asked, whose turn it is, the processes that have the models, and events."""
