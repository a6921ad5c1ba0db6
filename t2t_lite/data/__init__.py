"""Text to ids and back, data generation, and the input pipeline."""
