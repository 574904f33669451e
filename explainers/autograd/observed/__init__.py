"""What a recording notices on its way besides operators: projections of attention, class attention behind the blocks, bias terms."""
