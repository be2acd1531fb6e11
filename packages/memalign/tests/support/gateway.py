"""Models at the gateway of an MLflow tracking server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.endpoint import Endpoint

__all__ = ["gateway_model"]


def gateway_model(endpoint: Endpoint, name: str) -> str:
    """A model at the tracking server's gateway that asks the endpoint on loopback."""
    from mlflow.entities import GatewayEndpointModelConfig, GatewayModelLinkageType
    from mlflow.tracking._tracking_service.utils import _get_store

    store = _get_store()
    secret = store.create_gateway_secret(
        secret_name=name,
        secret_value={"api_key": "none"},
        provider="openai",
        auth_config={"api_base": endpoint.base_url},
    )
    model = store.create_gateway_model_definition(
        name=name, secret_id=secret.secret_id, provider="openai", model_name="small"
    )
    config = GatewayEndpointModelConfig(
        model_definition_id=model.model_definition_id, linkage_type=GatewayModelLinkageType.PRIMARY, weight=1.0
    )
    store.create_gateway_endpoint(name=name, model_configs=[config], usage_tracking=False)
    return f"gateway:/{name}"
