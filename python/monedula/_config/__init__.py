"""Where the values of settings come from: properties files, providers, tokens."""
