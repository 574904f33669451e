"""What a recorded model is made of, asked of the finished list of nodes: attention, residual sums, positions, pooling, class attention."""
