"""Attacks in what is judged, and how often they turn a verdict: for the benchmark's arms, and for a judge of yours."""

from memalign_bench.attacks.attack_methods import ARMS, Outcome, attack_arms, markdown, planned, sides
from memalign_bench.attacks.catalogue import ATTACKS, Attack, attacked, chosen_attacks
from memalign_bench.attacks.measure import Attempt, Flips, attack_judge, flips_of, measure, wanted_value

__all__ = [
    "ARMS",
    "ATTACKS",
    "Attack",
    "Attempt",
    "Flips",
    "Outcome",
    "attack_arms",
    "attack_judge",
    "attacked",
    "chosen_attacks",
    "flips_of",
    "markdown",
    "measure",
    "planned",
    "sides",
    "wanted_value",
]
