"""An app with one handler, which prints."""
