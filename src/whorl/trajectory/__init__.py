"""The fixed layout in which experience travels."""
