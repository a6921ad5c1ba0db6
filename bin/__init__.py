"""The commands: one thin file each, from flags to one call."""
