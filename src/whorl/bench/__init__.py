"""Measurements of Whorl's own parts."""
