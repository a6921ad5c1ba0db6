"""What training reports: metrics, cost, samples, pictures, the run's page."""
