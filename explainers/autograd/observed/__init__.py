"""What a recording notices on its way besides operators: projections of attention, bias terms."""
