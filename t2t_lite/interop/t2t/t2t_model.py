"""T2T's logging of models, which users call where they generate data, too."""

import logging

__all__ = ["log_debug", "log_info", "log_warn"]

_log = logging.getLogger(__name__)
log_debug, log_info, log_warn = _log.debug, _log.info, _log.warning
