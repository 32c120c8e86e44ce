"""Stateless keys: the same integers give the same 63 bits on every machine, and any other integers give others.

Everything random in a run starts from such a key instead of from a generator that somebody has to carry along, so a
lane that is rebuilt elsewhere, or counted by another actor, draws exactly what it would have drawn.
"""

from __future__ import annotations

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_GOLDEN = 0x9E37_79B9_7F4A_7C15  # 2^64 / golden ratio: consecutive integers land far apart


def _mix(word: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014): every input bit reaches every output bit."""
    word = ((word ^ (word >> 30)) * 0xBF58_476D_1CE4_E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D0_49BB_1331_11EB) & _MASK
    return word ^ (word >> 31)


def key(*integers: int) -> int:
    """A 63-bit hash of the integers, their order and their number.

    Each integer (taken modulo 2^64) is added to the state, which is then stepped and mixed as in SplitMix64.

    >>> key(1, 2) == key(1, 2), key(1, 2) == key(2, 1), key(0) == key(0, 0)
    (True, False, False)
    """
    state = _mix(len(integers) + _GOLDEN)
    for integer in integers:
        state = _mix((state + (integer & _MASK) + _GOLDEN) & _MASK)
    return state >> 1


def reset_seed(seed: int, lane: int, episode: int, attempt: int = 0) -> int:
    """The seed of a lane's episode: 31 bits, because some simulators take a C ``int``.

    ``attempt`` is above 0 only when resetting raised: the same seed might raise for ever.
    """
    words = (seed, lane, episode, attempt) if attempt else (seed, lane, episode)
    return key(*words) >> 32
