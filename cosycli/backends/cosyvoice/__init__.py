"""CosyVoice 2 and 3."""
