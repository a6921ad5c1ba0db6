"""What T2T's `utils.flags` offers: absl's flags, and their global set."""

from absl import flags

__all__ = ["FLAGS", "flags"]

FLAGS = flags.FLAGS
