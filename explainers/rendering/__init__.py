"""Maps as pictures: overlays and their colours, HTML for notebooks, figures for papers."""
