"""What the tests of the engine share: small models, twins of the engine, golden numbers."""
