"""The parts of a pipeline's config as its users write them, with secrets apart from the rest."""
