"""The frame of Image, Prompt and Text: questions, the address, comparing models, a narrow window."""
