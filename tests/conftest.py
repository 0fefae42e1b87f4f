"""What all tests share: Hypothesis without clocks, because a busy machine is no defect, and the same examples each time in CI.

Fifty examples are tried where a test says nothing else; MEMNB_EXAMPLES=1000 looks longer."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    'memnb',
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get('MEMNB_EXAMPLES', 50)),
    derandomize=bool(os.environ.get('CI')),
)
settings.load_profile('memnb')
