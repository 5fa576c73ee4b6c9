"""Static forms of what waits for the device in a step: a module a kind. A rule's `fix` calls them."""
