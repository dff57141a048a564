"""How long to look: `pytest tests/fuzz --hypothesis-profile=long --timeout=0` for hours, the default for every run."""

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "long",
    max_examples=100_000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink],
)
