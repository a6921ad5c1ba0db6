"""The release of this package; setup.cfg reads it from here."""

__version__ = "0.1.0"
