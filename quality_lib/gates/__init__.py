"""Gates of levels 1 to 4: checks of a request, a stream or a finished answer. Pure."""
