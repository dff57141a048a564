"""From readings of processes to the peak of one window. Nothing here knows of records or of AWS's events."""
