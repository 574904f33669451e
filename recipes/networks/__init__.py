"""Networks that are pretrained, made smaller or put together, before and while they are trained."""
