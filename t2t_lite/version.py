"""The release of this package; setup.cfg reads it from here."""

__version__ = "0.2.0"
