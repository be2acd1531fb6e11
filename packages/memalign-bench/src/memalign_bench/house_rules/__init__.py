"""House rules: eight invented policies that no model can know, to test whether what an expert says is taken up."""

from memalign_bench.house_rules.policies import POLICIES, Policy, load_policy
from memalign_bench.house_rules.taught_items import (
    TAUGHT,
    UNSEEN,
    house_rule_rows,
    house_rule_tasks,
    write_house_rules,
)

__all__ = [
    "POLICIES",
    "TAUGHT",
    "UNSEEN",
    "Policy",
    "house_rule_rows",
    "house_rule_tasks",
    "load_policy",
    "write_house_rules",
]
