"""Lambda Managed Instances: many requests at once, no freeze."""
