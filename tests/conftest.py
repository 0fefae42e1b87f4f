"""What all tests share: Hypothesis without clocks, because a busy machine is no defect, and the same examples each time in CI."""
import os

from hypothesis import HealthCheck, settings

settings.register_profile('memnb', deadline=None, suppress_health_check=[HealthCheck.too_slow],
                          derandomize=bool(os.environ.get('CI')))
settings.load_profile('memnb')
