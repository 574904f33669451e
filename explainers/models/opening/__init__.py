"""From whatever people have of a model (a file of weights, a run's folder, an adapter, a module) to one that can be explained."""
