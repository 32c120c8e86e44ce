"""External executables as an environment, ``whorl/Process-v0``: a program for each episode, in a folder of its own.

    spaces    spaces in a form that TOML can hold; values to and from JSON
    settings  the keyword arguments, checked
    guard     a small process that ends the program should ours be killed
    program   the running program: its pipes with deadlines, its last words, its end
    scratch   the folder of an episode: made, measured, and removed, kept or archived
    lines     talking in lines of JSON
    files     talking in files, for codes that can do nothing else
    env       all of it as a Gymnasium environment

docs/how-to/bring-your-simulator.md is the page for users.
"""
