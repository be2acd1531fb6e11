"""Attacks in what is judged, and how often they turn a verdict: for the benchmark's methods, and for a judge of yours."""

from memalign_bench.attacks.attack_methods import METHODS, Outcome, attack_methods, markdown, planned, sides
from memalign_bench.attacks.catalogue import ATTACKS, Attack, attacked, chosen_attacks
from memalign_bench.attacks.measure import Attempt, Flips, attack_judge, flips_of, measure, wanted_value

__all__ = [
    "ATTACKS",
    "METHODS",
    "Attack",
    "Attempt",
    "Flips",
    "Outcome",
    "attack_judge",
    "attack_methods",
    "attacked",
    "chosen_attacks",
    "flips_of",
    "markdown",
    "measure",
    "planned",
    "sides",
    "wanted_value",
]
