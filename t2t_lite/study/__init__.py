"""What is learned from runs: the paper's tables, reports, attention, distilled text."""
