"""Settings: their schema, their layers and their reference."""
