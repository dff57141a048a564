"""`truemem demo`: replays the incident under the local Lambda, as a table, a verdict and a picture."""
