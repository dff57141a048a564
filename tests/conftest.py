"""For all tests."""

from hypothesis import HealthCheck, settings

# How long hypothesis takes to draw its first example says something about the machine alone.
settings.register_profile("any-machine", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("any-machine")
