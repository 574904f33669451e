"""What ships inside Vitrine: small trained models, sprites, sample inputs, and the recipes that made them."""
