"""The app whose handlers do the work of a soak."""
