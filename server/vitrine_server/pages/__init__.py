"""The pages: routes, the contexts of their templates, a page for each method, embedding."""
