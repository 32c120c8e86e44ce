"""Networks: a description without torch, a numpy forward to act with, a torch forward to learn with."""
