"""Pure maths: returns, advantages, losses, distributions, noise."""
