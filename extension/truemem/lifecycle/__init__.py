"""What happens when: start, events, ticks, the end of the environment."""
