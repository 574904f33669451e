"""Opening of whatever people have of a model (a file of weights, a run's folder, an adapter, a module) as one that can be explained."""
