"""What the thesis says of its published tables, held against them."""
