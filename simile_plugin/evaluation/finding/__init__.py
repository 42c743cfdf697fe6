"""Finding a paraphrase of a query in a document, as a span of its words.

Task and measures are those of paraphrase span detection (setup 1: it is always there, setup 2: it
may be missing); the search is ours and needs no training data of the task.
"""
