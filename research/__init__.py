"""What the maintainers ask and measure outside of the product."""
