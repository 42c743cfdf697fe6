"""Questions asked of finished systems, one module each, over files that any system can write."""
