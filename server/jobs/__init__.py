"""Work on its way: what was asked, whose turn it is, the processes that have the models, events, and the store of what is finished."""
