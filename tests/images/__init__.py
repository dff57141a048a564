"""Container images: their archives, their roots, and what the commands say of them."""
