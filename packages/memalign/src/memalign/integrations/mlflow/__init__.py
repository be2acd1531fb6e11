"""memalign inside MLflow: the same notebook, one import changed.

    from memalign.integrations.mlflow import MemAlignOptimizer

    aligned = judge.align(traces=traces, optimizer=MemAlignOptimizer())
    aligned.register()

    from memalign.integrations.mlflow import load

    aligned = load("send")

Nothing of MLflow is changed: its own `get_scorer` gives a plain judge with the guidelines in its
instructions, and `load` the judge with its whole memory. Needs MLflow
(`pip install "mlflow>=3.11.1"`, or the extra `mlflow`), and neither DSPy nor LiteLLM.
"""

from __future__ import annotations

from importlib.util import find_spec

from memalign.errors import ConfigurationError

if find_spec("mlflow") is None:
    raise ConfigurationError(
        'memalign.integrations.mlflow needs MLflow. Run: pip install "mlflow>=3.11.1"'
    )

from memalign.integrations.mlflow.assessments import feedback_of, log_feedback
from memalign.integrations.mlflow.experiments import cases_of_experiment
from memalign.integrations.mlflow.judge import MemAlignJudge
from memalign.integrations.mlflow.loading import load
from memalign.integrations.mlflow.optimizer import MemAlignOptimizer

__all__ = [
    "MemAlignJudge",
    "MemAlignOptimizer",
    "cases_of_experiment",
    "feedback_of",
    "load",
    "log_feedback",
]
