"""Every kind of model, and a batch for it."""

from support.model_fixtures import dropouts, features, kind, model

__all__ = ["dropouts", "features", "kind", "model"]
