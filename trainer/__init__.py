"""Real PyTorch training that is told Directives and nothing else: no clock, no money."""
