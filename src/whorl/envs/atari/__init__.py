"""Atari 2600 games by ``ale-py``: ``atari/Pong-v0``, ``atari/SpaceInvaders-v0``, one id for each ROM it brings.

    games.py     ids, and what is needed to play
    settings.py  what a user may choose
    copies.py    any number of consoles in ALE's own vector interface: all preprocessing, lives, scores
    env.py       one console as a Gymnasium environment, which can be filmed
    form.py      all consoles of an actor as a vector form

One console and many go through the same code, so a lane is the same in both, bit for bit.
"""
