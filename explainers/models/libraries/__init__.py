"""Facts that timm, transformers and OpenCLIP declare about their models, and downloads from a hub."""
