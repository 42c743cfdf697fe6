"""The reward encoder: averaged subword embeddings, their training and their folder on disk."""
