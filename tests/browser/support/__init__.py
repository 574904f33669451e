"""What the tests of the pages share: a server, a Chromium, and how pages write numbers."""
