"""Tools of the project: they write documents and declarations anew, and no part of the product uses them."""
