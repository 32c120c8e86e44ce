from whorl.ops.keys import key, reset_seed


def test_keys_are_what_they_always_were() -> None:
    """Literal values: a change here changes every run's random numbers."""
    assert key(1, 2, 3) == 5617663791590485107
    assert reset_seed(1, 0, 0) == 1087106138


def test_keys_of_neighbours_differ_in_about_half_their_bits() -> None:
    distances = [bin(key(7, n) ^ key(7, n + 1)).count("1") for n in range(500)]
    assert 28 < sum(distances) / len(distances) < 35


def test_order_number_and_sign_of_the_integers_matter() -> None:
    assert len({key(), key(0), key(0, 0), key(1, 2), key(2, 1), key(-1), key(1)}) == 7


def test_reset_seeds_fit_a_c_int_and_hardly_collide() -> None:
    seeds = {reset_seed(1, lane, episode) for lane in range(64) for episode in range(200)}
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert len(seeds) > 64 * 200 - 3
    assert reset_seed(1, 0, 0, attempt=1) != reset_seed(1, 0, 0)
