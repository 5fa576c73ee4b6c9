"""`xlaport lint`: the engine's findings, filtered as a linter does, kept in a cache, and fixed on request."""
