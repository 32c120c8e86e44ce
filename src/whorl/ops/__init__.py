"""Pure maths on arrays: shapes checked at the door, the formula and the paper in the docstring."""
