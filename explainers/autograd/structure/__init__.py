"""The structure of a recorded model, read from the finished list of nodes: attention, residual sums, positions, pooling, class
attention."""
