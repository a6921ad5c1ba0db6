"""Pictures of attention: as a page to explore, and for papers."""
