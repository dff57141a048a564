"""The function, the settings, and the environment variables that follow from them."""
