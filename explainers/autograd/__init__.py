"""One recorded forward pass, and the ways back over it: rules, operators, and the handlers that choose an operator."""
