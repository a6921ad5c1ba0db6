"""What setup.cfg declares."""

import configparser
import pathlib


def setup_cfg() -> configparser.ConfigParser:
    """Returns setup.cfg, read."""
    parser = configparser.ConfigParser()
    parser.read(pathlib.Path(__file__).parents[2] / "setup.cfg", encoding="utf-8")
    return parser
