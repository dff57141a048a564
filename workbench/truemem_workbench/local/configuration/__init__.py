"""What can be chosen: the function, the settings, and the variables that follow from them."""
