"""The Booster: regulating the minimum current of Fermilab's gradient magnets, as a physics-based stand-in.

    signals.py      what comes from outside: the line, the Main Injector, the operators, noise
    plant.py        what the set point does: transport delay, supply, magnets; and the hash that fixes it all
    controllers.py  the published regulator, a feed-forward one and an oracle
    copies.py       lanes of episodes: observations, rewards, bounds
    records.py      records of the machine, from CSV files
    surrogate.py    a network learnt from them (by ``whorl.fitting``), and replayed.py lanes of episodes on it
    env.py          ``whorl/Booster-v0`` and ``whorl/BoosterContinuous-v0``; ``form.py`` is their vector form

``python -m whorl.envs.library.booster`` prints what the baselines reach.
"""
