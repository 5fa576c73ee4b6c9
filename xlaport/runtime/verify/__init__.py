"""Whether a port trains as its original does: runs of both, compared, with a verdict and its reason."""
