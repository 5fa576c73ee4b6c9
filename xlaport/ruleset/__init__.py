"""Rules: one Markdown page each, with a same-stem Python file where conditions in data do not suffice."""
