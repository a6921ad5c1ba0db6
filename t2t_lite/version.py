"""The release of this package; setup.cfg reads it from here."""

__version__ = "1.0.0.dev0"
