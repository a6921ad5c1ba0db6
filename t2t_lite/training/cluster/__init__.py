"""Training on several machines: rendezvous, failure detection and synchronized decisions."""
