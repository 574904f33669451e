"""What the models of pictures learn from and are asked about: photos, rendered scenes, prompts, and what is held back."""
