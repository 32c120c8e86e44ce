"""Networks, in torch for learning and in numpy for acting."""
