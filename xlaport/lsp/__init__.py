"""`xlaport lsp`: findings, rule pages and fixes in an editor, over the Language Server Protocol. Needs the extra `lsp`.

`checking` and `actions` know nothing of the protocol; `opened` and `server` are the only importers of pygls and lsprotocol.
"""
