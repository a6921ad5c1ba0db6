"""The commands: one thin file each, from flags to a single call."""
