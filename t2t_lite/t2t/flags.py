"""T2T's flags, which code reads as `flags.FLAGS.data_dir`: absl's, as the command has them."""

from absl import flags

__all__ = ["FLAGS", "flags"]

FLAGS = flags.FLAGS
