"""What a record says of memory, against what real processes held."""
