"""Studies: the experiments that others have published, run by one command and set beside what they reported.

contract.py    a study: cells as plain data, and what is made of their results
published.py   what the documents report, with where
stats.py       interquartile means, bootstrap intervals, fits
results.py     what a cell left behind
directory.py   a study's folder: results as they come, so that an interrupted study goes on
running.py     cells as processes, one by one or side by side
progress.py    how far it is, and how long it will take
probe.py       a measuring function as a command
findings.py    what was expected, what was measured, and the verdict
figures.py     pictures, each with its CSV
report.py      report.html, in one file
overview.py    the findings of all studies on one page
command.py     ``whorl study``
registry.py    the studies by name; each is a module of ``catalogue``
"""
