"""Work on its way: what was asked, the queue and its one worker, the models in memory, events, and the store of what is finished."""
