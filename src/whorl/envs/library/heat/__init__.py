"""A heated plate: the 2-D heat equation, with heaters along its edges that steer it to a target.

    plate.py        the equation on some rows of the plate; what is drawn for an episode
    rows.py         which rows are this rank's, and what ranks tell each other
    env.py          ``whorl/Heat-v0``, an environment of one or several MPI ranks
    controllers.py  baselines: proportional, and with feed-forward
    drawing.py      pictures

``python -m whorl.envs.library.heat`` prints what the baselines reach.
"""
