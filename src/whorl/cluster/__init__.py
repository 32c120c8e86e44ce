"""Runs on the nodes of a batch system: scripts for Slurm and PBS, and what runs them there.

whorl slurm ... -- train ...   writes or submits a script (``script``, ``slurm``, ``pbs``)
  job      the batch process on the first node: starts the nodes, watches, requeues, has the training's exit code
  node     one on each node (engine ray): the head starts the cluster and the training, the others join
  meeting  how they find each other: files in the run directory
"""
