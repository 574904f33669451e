"""What timm, transformers and OpenCLIP say about their own models, and how files come from a hub."""
