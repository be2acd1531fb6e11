"""memalign inside MLflow: the same notebook, one import changed.

    from memalign.integrations.mlflow import MemAlignOptimizer

    aligned = judge.align(traces=traces, optimizer=MemAlignOptimizer())

Where memalign is installed `mlflow.genai.scorers.get_scorer` and `list_scorers` read judges that were registered by it,
with or without this import. Importing this module teaches MLflow's judges to ask models of this process (`local:/…`).
Needs MLflow (`pip install "mlflow>=3.11.1"`, or the extra `mlflow`), and neither DSPy nor LiteLLM.
"""

from __future__ import annotations

from importlib.util import find_spec

from memalign.errors import ConfigurationError

if find_spec("mlflow") is None:
    raise ConfigurationError('memalign.integrations.mlflow needs MLflow. Run: pip install "mlflow>=3.11.1"')

from memalign.integrations.mlflow.aligned_judge import MemAlignJudge, as_scorer
from memalign.integrations.mlflow.in_process_models import teach_embedded
from memalign.integrations.mlflow.mlflow_optimizer import MemAlignOptimizer
from memalign.integrations.mlflow.registry_loading import adopt, get_scorer
from memalign.integrations.mlflow_entry import teach_mlflow

__all__ = ["MemAlignJudge", "MemAlignOptimizer", "adopt", "as_scorer", "get_scorer"]

teach_mlflow()
teach_embedded()
