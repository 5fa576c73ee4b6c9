"""One thin module a verb: arguments in, exit status out."""
