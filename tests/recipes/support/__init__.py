"""What the tests of what is embedded share: data that is made up, and a tiny encoder."""
