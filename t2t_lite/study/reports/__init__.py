"""Reports on training: metrics, samples, figures, HTML pages."""
