"""Sources of settings' values: properties files, providers, tokens."""
