"""Hyper-parameter search: many runs of one file, each with values of its own (``whorl tune``, ``whorl.tune``).

settings.py    what [tune] holds             spaces.py     where a value may come from
search_file.py a file, checked               directory.py  what a study leaves behind
executor.py    who runs trials               local.py      processes of this machine
ray.py         nodes of a Ray cluster        ray_hosts.py  speaks to Ray for it
worker.py      a trial's own process         trial.py      what a user's function is given
search.py      grid, random, tpe; pruning    population.py population-based training
crew.py        trials under way              curve.py      a trial's metrics while it runs
report.py, pictures.py, table.py             what people look at
"""
